// Package testkit helps tests: it runs one real PostgreSQL for each test process, and creates one database for each
// test.
package testkit

import (
	"fmt"
	"os"
	"testing"
)

// Main runs a package's tests, then the functions in after, and then stops the PostgreSQL of the process. Call it from
// TestMain; it never returns:
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
