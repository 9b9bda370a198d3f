//! The keys of a join on `content_address`, which its filter in the scan of the other side states.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, DynamicFilterPhysicalExpr, InListExpr, Literal,
};
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::SystemColumn;

/// Returns the conditions of `predicate` that another operator fills, and that depend on nothing
/// but the address.
pub(super) fn address_filters(predicate: &Arc<dyn PhysicalExpr>) -> Vec<Arc<dyn PhysicalExpr>> {
    let is_filled = |filter: &&Arc<dyn PhysicalExpr>| {
        filter.is::<DynamicFilterPhysicalExpr>()
            && matches!(filter.children().as_slice(), [column] if is_address(column))
    };
    let conditions = split_conjunction(predicate).into_iter();
    conditions.filter(is_filled).map(Arc::clone).collect()
}

/// Returns true if `expression` is the address of a row, as a text of any type.
pub(super) fn is_address(expression: &Arc<dyn PhysicalExpr>) -> bool {
    if let Some(cast) = expression.downcast_ref::<CastExpr>() {
        return cast.cast_type().is_string() && is_address(cast.expr());
    }
    let column = expression.downcast_ref::<Column>();
    column.is_some_and(|column| column.name() == SystemColumn::ContentAddress.name())
}

/// Returns the addresses that rows may have which pass `filter`; `None` if they may have any. It is
/// the filter of a join: a list of keys and their range, or one of these for each partition.
pub(super) fn allowed_addresses(
    filter: &Arc<dyn PhysicalExpr>,
) -> Option<BTreeSet<ContentAddress>> {
    if let Some(filter) = filter.downcast_ref::<DynamicFilterPhysicalExpr>() {
        return allowed_addresses(&filter.current().ok()?);
    }
    if let Some(literal) = filter.downcast_ref::<Literal>() {
        let is_false = *literal.value() == ScalarValue::Boolean(Some(false));
        return is_false.then(BTreeSet::new);
    }
    if let Some(list) = filter.downcast_ref::<InListExpr>() {
        return listed_addresses(list);
    }
    if let Some(both) = filter.downcast_ref::<BinaryExpr>() {
        let is_either =
            || allowed_addresses(both.left()).or_else(|| allowed_addresses(both.right()));
        return (*both.op() == Operator::And).then(is_either).flatten();
    }
    let by_partition = filter.downcast_ref::<CaseExpr>()?;
    let mut all = allowed_addresses(by_partition.else_expr()?)?;
    for (_, keys) in by_partition.when_then_expr() {
        all.extend(allowed_addresses(keys)?);
    }
    Some(all)
}

/// Returns the addresses of a list of keys; `None` if it is one of other values.
fn listed_addresses(list: &InListExpr) -> Option<BTreeSet<ContentAddress>> {
    if list.negated() || !is_address(list.expr()) {
        return None;
    }
    let mut addresses = BTreeSet::new();
    for value in list.list() {
        let text = value.downcast_ref::<Literal>()?.value().try_as_str()?;
        // NULL equals nothing, and a text that isn't an address is that of no grain.
        let address = text.and_then(|text| text.parse::<ContentAddress>().ok());
        addresses.extend(address);
    }
    Some(addresses)
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::physical_expr::expressions::{IsNullExpr, in_list, lit};

    use super::*;

    fn column(place: usize) -> Arc<dyn PhysicalExpr> {
        Arc::new(Column::new(["content_address", "subject"][place], place))
    }

    fn address(byte: u8) -> ContentAddress {
        let text = format!("{byte:02x}").repeat(32);
        text.parse().unwrap()
    }

    fn listed(place: usize, values: Vec<Option<String>>) -> Arc<dyn PhysicalExpr> {
        let columns = ["content_address", "subject"];
        let columns = columns.map(|name| Field::new(name, DataType::Utf8, true));
        let schema = Schema::new(columns.to_vec());
        let values = values.into_iter().map(|text| lit(ScalarValue::Utf8(text)));
        in_list(column(place), values.collect(), &false, &schema).unwrap()
    }

    fn keys(bytes: &[u8]) -> Arc<dyn PhysicalExpr> {
        let texts = bytes.iter().map(|byte| Some(address(*byte).to_string()));
        listed(0, texts.collect())
    }

    fn binary(
        left: Arc<dyn PhysicalExpr>,
        op: Operator,
        right: Arc<dyn PhysicalExpr>,
    ) -> Arc<dyn PhysicalExpr> {
        Arc::new(BinaryExpr::new(left, op, right))
    }

    /// Returns the filter of a join with several partitions.
    fn by_partition(
        keys: Vec<Arc<dyn PhysicalExpr>>,
        other: Arc<dyn PhysicalExpr>,
    ) -> Arc<dyn PhysicalExpr> {
        let branch = |(number, keys)| (lit(ScalarValue::UInt64(Some(number))), keys);
        let branches = (0..).zip(keys).map(branch).collect();
        let partition = lit(ScalarValue::UInt64(Some(0)));
        Arc::new(CaseExpr::try_new(Some(partition), branches, Some(other)).unwrap())
    }

    fn allowed(filter: &Arc<dyn PhysicalExpr>) -> Option<Vec<ContentAddress>> {
        allowed_addresses(filter).map(|keys| keys.into_iter().collect())
    }

    #[test]
    fn the_keys_of_a_join_are_read_from_its_filter() {
        let two = Some(vec![address(1), address(2)]);
        assert_eq!(allowed(&keys(&[2, 1, 2])), two);
        let bound = binary(column(0), Operator::LtEq, lit(address(2).to_string()));
        let within = binary(bound, Operator::And, keys(&[1, 2]));
        assert_eq!(allowed(&within), two);
        let parts = by_partition(vec![keys(&[2]), lit(false), keys(&[1])], lit(false));
        assert_eq!(allowed(&parts), two);
        let filled = DynamicFilterPhysicalExpr::new(vec![column(0)], parts);
        let filled: Arc<dyn PhysicalExpr> = Arc::new(filled);
        assert_eq!(allowed(&filled), two);
        assert_eq!(allowed(&lit(false)), Some(Vec::new()));
    }

    #[test]
    fn null_and_texts_that_are_no_addresses_are_no_keys() {
        let upper = address(0xab).to_string().to_uppercase();
        let texts = vec![
            None,
            Some("x".to_owned()),
            Some(upper),
            Some(address(1).to_string()),
        ];
        assert_eq!(allowed(&listed(0, texts)), Some(vec![address(1)]));
    }

    #[test]
    fn other_filters_allow_any_address() {
        let is_null: Arc<dyn PhysicalExpr> = Arc::new(IsNullExpr::new(column(0)));
        for filter in [
            lit(true),
            lit(ScalarValue::Boolean(None)),
            listed(1, vec![Some(address(1).to_string())]),
            binary(is_null, Operator::Or, keys(&[1])),
            by_partition(vec![keys(&[1]), lit(true)], lit(false)),
            by_partition(vec![keys(&[1])], lit(true)),
        ] {
            assert_eq!(allowed(&filter), None, "{filter}");
        }
    }

    #[test]
    fn only_filters_that_depend_on_the_address_alone_are_looked_up() {
        let filter = |columns: &[usize]| -> Arc<dyn PhysicalExpr> {
            let columns = columns.iter().map(|place| column(*place)).collect();
            Arc::new(DynamicFilterPhysicalExpr::new(columns, lit(true)))
        };
        let count = |predicate: Arc<dyn PhysicalExpr>| address_filters(&predicate).len();
        assert_eq!(count(filter(&[0])), 1);
        assert_eq!(count(filter(&[1])), 0);
        assert_eq!(count(filter(&[0, 1])), 0);
        assert_eq!(count(keys(&[1])), 0);
        let two = binary(filter(&[0]), Operator::And, filter(&[0]));
        assert_eq!(count(binary(keys(&[1]), Operator::And, two)), 2);
    }
}
