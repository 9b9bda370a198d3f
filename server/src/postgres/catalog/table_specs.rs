//! The columns of PostgreSQL's catalog that clients read, with their values where a row doesn't
//! give one.

/// Returns true for the name of one of the tables.
pub(super) fn is_catalog_table(name: &str) -> bool {
    TABLES
        .iter()
        .any(|(known, _)| known.eq_ignore_ascii_case(name))
}

/// The tables: name, and columns as `name:type` with the types `i` (integer), `t` (text), `b`
/// (boolean) and `l` (list of texts), in capitals if the value is NULL unless a row gives it; an
/// integer is 0, a text empty and a boolean false otherwise. All that the lake has no equivalent
/// for are empty.
pub(super) const TABLES: [(&str, &str); 54] = [
    (
        "pg_class",
        "oid:i relname:t relnamespace:i reltype:i reloftype:i relowner:i relam:i relfilenode:i \
         reltablespace:i relpages:i reltuples:i relallvisible:i reltoastrelid:i relhasindex:b \
         relisshared:b relpersistence:t relkind:t relnatts:i relchecks:i relhasrules:b \
         relhastriggers:b relhassubclass:b relrowsecurity:b relforcerowsecurity:b \
         relispopulated:b relreplident:t relispartition:b relacl:L reloptions:L relpartbound:T",
    ),
    (
        "pg_attribute",
        "attrelid:i attname:t atttypid:i attlen:i attnum:i attndims:i atttypmod:i attnotnull:b \
         atthasdef:b atthasmissing:b attidentity:t attgenerated:t attisdropped:b attislocal:b \
         attinhcount:i attcollation:i attstattarget:i attstorage:t attcompression:t attoptions:L \
         attacl:L attfdwoptions:L",
    ),
    (
        "pg_type",
        "oid:i typname:t typnamespace:i typowner:i typlen:i typbyval:b typtype:t typcategory:t \
         typispreferred:b typisdefined:b typdelim:t typrelid:i typelem:i typarray:i typinput:t \
         typoutput:t typreceive:i typsend:t typnotnull:b typbasetype:i typtypmod:i typndims:i \
         typcollation:i typdefault:T",
    ),
    ("pg_namespace", "oid:i nspname:t nspowner:i nspacl:L"),
    (
        "pg_database",
        "oid:i datname:t datdba:i encoding:i datcollate:t datctype:t datistemplate:b \
         datallowconn:b datconnlimit:i datlocprovider:t daticulocale:T datcollversion:T datacl:L \
         dattablespace:i",
    ),
    (
        "pg_roles",
        "oid:i rolname:t rolsuper:b rolinherit:b rolcreaterole:b rolcreatedb:b rolcanlogin:b \
         rolreplication:b rolbypassrls:b rolconnlimit:i rolvaliduntil:T rolconfig:L",
    ),
    ("pg_user", "usename:t usesysid:i usecreatedb:b usesuper:b"),
    (
        "pg_settings",
        "name:t setting:t unit:T category:t short_desc:t context:t vartype:t source:t boot_val:T \
         reset_val:T",
    ),
    ("pg_am", "oid:i amname:t amhandler:t amtype:t"),
    (
        "pg_tables",
        "schemaname:t tablename:t tableowner:t tablespace:T hasindexes:b hasrules:b \
         hastriggers:b rowsecurity:b",
    ),
    (
        "pg_views",
        "schemaname:t viewname:t viewowner:t definition:T",
    ),
    (
        "pg_matviews",
        "schemaname:t matviewname:t matviewowner:t definition:T",
    ),
    ("pg_attrdef", "oid:i adrelid:i adnum:i adbin:t"),
    (
        "pg_description",
        "objoid:i classoid:i objsubid:i description:t",
    ),
    ("pg_shdescription", "objoid:i classoid:i description:t"),
    (
        "pg_index",
        "indexrelid:i indrelid:i indnatts:i indnkeyatts:i indisunique:b indisprimary:b \
         indisexclusion:b indimmediate:b indisclustered:b indisvalid:b indisready:b indislive:b \
         indisreplident:b indnullsnotdistinct:b indkey:L indoption:L indclass:L indcollation:L \
         indexprs:T indpred:T",
    ),
    (
        "pg_indexes",
        "schemaname:t tablename:t indexname:t tablespace:T indexdef:t",
    ),
    (
        "pg_constraint",
        "oid:i conname:t connamespace:i contype:t condeferrable:b condeferred:b convalidated:b \
         conrelid:i contypid:i conindid:i conparentid:i confrelid:i confupdtype:t confdeltype:t \
         confmatchtype:t conislocal:b connoinherit:b conkey:L confkey:L conbin:T",
    ),
    (
        "pg_proc",
        "oid:i proname:t pronamespace:i proowner:i prolang:i prokind:t prosecdef:b proretset:b \
         provolatile:t pronargs:i prorettype:i proargtypes:T prosrc:t proisagg:b proacl:L",
    ),
    ("pg_opclass", "oid:i opcname:t opcdefault:b opcmethod:i"),
    ("pg_language", "oid:i lanname:t"),
    (
        "pg_tablespace",
        "oid:i spcname:t spcowner:i spcacl:L spcoptions:L",
    ),
    (
        "pg_inherits",
        "inhrelid:i inhparent:i inhseqno:i inhdetachpending:b",
    ),
    (
        "pg_trigger",
        "oid:i tgrelid:i tgparentid:i tgname:t tgfoid:i tgtype:i tgenabled:t tgisinternal:b \
         tgconstraint:i tgdeferrable:b",
    ),
    (
        "pg_policy",
        "oid:i polname:t polrelid:i polcmd:t polpermissive:b polroles:T polqual:T polwithcheck:T",
    ),
    (
        "pg_statistic_ext",
        "oid:i stxrelid:i stxname:t stxnamespace:i stxowner:i stxstattarget:i stxkind:L",
    ),
    (
        "pg_publication",
        "oid:i pubname:t puballtables:b pubowner:i",
    ),
    (
        "pg_publication_rel",
        "oid:i prpubid:i prrelid:i prqual:T prattrs:L",
    ),
    ("pg_publication_namespace", "oid:i pnpubid:i pnnspid:i"),
    (
        "pg_collation",
        "oid:i collname:t collnamespace:i collprovider:t collcollate:T",
    ),
    ("pg_enum", "oid:i enumtypid:i enumsortorder:i enumlabel:t"),
    ("pg_range", "rngtypid:i rngsubtype:i rngmultitypid:i"),
    (
        "pg_sequence",
        "seqrelid:i seqtypid:i seqstart:i seqincrement:i seqmax:i seqmin:i",
    ),
    ("pg_foreign_table", "ftrelid:i ftserver:i ftoptions:L"),
    ("pg_foreign_server", "oid:i srvname:t srvowner:i srvfdw:i"),
    (
        "pg_extension",
        "oid:i extname:t extowner:i extnamespace:i extversion:t",
    ),
    (
        "pg_rewrite",
        "oid:i rulename:t ev_class:i ev_type:t ev_enabled:t is_instead:b",
    ),
    (
        "pg_depend",
        "classid:i objid:i objsubid:i refclassid:i refobjid:i refobjsubid:i deptype:t",
    ),
    (
        "pg_auth_members",
        "roleid:i member:i grantor:i admin_option:b",
    ),
    ("pg_aggregate", "aggfnoid:i aggkind:t aggnumdirectargs:i"),
    (
        "pg_cast",
        "oid:i castsource:i casttarget:i castfunc:i castcontext:t castmethod:t",
    ),
    (
        "pg_conversion",
        "oid:i conname:t connamespace:i conowner:i conforencoding:i contoencoding:i conproc:i \
         condefault:b",
    ),
    ("pg_db_role_setting", "setdatabase:i setrole:i setconfig:L"),
    (
        "pg_default_acl",
        "oid:i defaclrole:i defaclnamespace:i defaclobjtype:t defaclacl:L",
    ),
    (
        "pg_event_trigger",
        "oid:i evtname:t evtevent:t evtowner:i evtfoid:i evtenabled:t evttags:L",
    ),
    (
        "pg_foreign_data_wrapper",
        "oid:i fdwname:t fdwowner:i fdwhandler:i fdwvalidator:i fdwacl:L fdwoptions:L",
    ),
    ("pg_largeobject_metadata", "oid:i lomowner:i lomacl:L"),
    (
        "pg_operator",
        "oid:i oprname:t oprnamespace:i oprowner:i oprkind:t oprleft:i oprright:i oprresult:i \
         oprcode:i",
    ),
    (
        "pg_subscription",
        "oid:i subdbid:i subname:t subowner:i subenabled:b subpublications:L",
    ),
    (
        "pg_ts_config",
        "oid:i cfgname:t cfgnamespace:i cfgowner:i cfgparser:i",
    ),
    (
        "pg_ts_dict",
        "oid:i dictname:t dictnamespace:i dictowner:i dicttemplate:i dictinitoption:T",
    ),
    ("pg_ts_parser", "oid:i prsname:t prsnamespace:i"),
    ("pg_ts_template", "oid:i tmplname:t tmplnamespace:i"),
    (
        "pg_user_mappings",
        "umid:i srvid:i srvname:t umuser:i usename:t umoptions:L",
    ),
];
