from ssma.cli import main

raise SystemExit(main())
