// Package testkit is the harness of the tests: a real PostgreSQL of the test process's own, and a database of its own for each test.
package testkit

import (
	"fmt"
	"os"
	"testing"
)

// Main runs a package's tests and stops what the harness started, after what the package itself ends. Call it from TestMain, which never returns:
//
//	func TestMain(m *testing.M) { testkit.Main(m) }
func Main(m *testing.M, after ...func() error) {
	code := m.Run()
	for _, end := range append(after, stopServer) {
		if err := end(); err != nil {
			fmt.Fprintln(os.Stderr, "testkit:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}
