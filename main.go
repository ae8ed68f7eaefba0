// Quantix is a vCenter for plain KVM hosts: see README.md.
package main

import (
	"os"

	"quantix/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:])) }
