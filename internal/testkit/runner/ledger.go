package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// flakyTestsFile lists flaky tests: tests that failed and then passed when repeated alone. Until its cause is known,
// each counts as a fault of the test or the product.
const flakyTestsFile = "internal/testkit/flakes.md"

// flakyTestRow returns the row for a flaky test in flakyTestsFile.
func flakyTestRow(at time.Time, revision, part string, o testOutcome) string {
	reason := strings.ReplaceAll(o.reason, "|", "/")
	if len(reason) > 160 {
		reason = strings.ToValidUTF8(reason[:160], "") + "…"
	}
	return fmt.Sprintf("| %s | %s | %s | `%s` | %s |\n", at.Format(time.DateOnly), revision, part, o.name, reason)
}

// appendFlakyTests appends the rows to the list of flaky tests at path.
func appendFlakyTests(path string, rows []string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return fmt.Errorf("write to the ledger of flaky tests: %w", err)
	}
	defer f.Close()
	_, err = f.WriteString(strings.Join(rows, ""))
	return err
}
