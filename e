gristmill: nothing found at `../corpus`; give a file, a folder, a pattern such as `exports/*.mg`, a URI, or `-` for standard input
