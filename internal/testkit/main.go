// Package testkit is the harness of the tests: a real PostgreSQL of the test process's own, and a database of its own for each test.
package testkit

import (
	"fmt"
	"os"
	"testing"
)

// Main runs a package's tests and stops what the harness started. Call it from TestMain, which never returns:
//
//	func TestMain(m *testing.M) { testkit.Main(m) }
func Main(m *testing.M) {
	code := m.Run()
	if err := stopServer(); err != nil {
		fmt.Fprintln(os.Stderr, "testkit:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}
