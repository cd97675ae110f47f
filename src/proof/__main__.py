from proof.cli import main

main()
