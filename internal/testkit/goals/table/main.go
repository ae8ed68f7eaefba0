// Command table prints what benchmarks have told of the goals: table FILE.
package main

import (
	"fmt"
	"os"

	"quantix/internal/testkit/goals"
)

func main() {
	err := fmt.Errorf("usage: table FILE")
	if len(os.Args) == 2 {
		err = print(os.Args[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(1)
	}
}

func print(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	return goals.Table(os.Stdout, file)
}
