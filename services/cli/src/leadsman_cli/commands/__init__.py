"""One module per subcommand, imported only when it is used, so that every command starts fast."""
