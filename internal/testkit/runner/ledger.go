package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// ledgerFile lists the tests that failed and then passed alone. Each is a fault of the test or the product until its
// cause is known.
const ledgerFile = "internal/testkit/flakes.md"

// ledgerLine returns a row of the ledger.
func ledgerLine(at time.Time, revision, part string, o outcome) string {
	reason := strings.ReplaceAll(o.reason, "|", "/")
	if len(reason) > 160 {
		reason = strings.ToValidUTF8(reason[:160], "") + "…"
	}
	return fmt.Sprintf("| %s | %s | %s | `%s` | %s |\n", at.Format(time.DateOnly), revision, part, o.name, reason)
}

// appendLedger appends the rows to the ledger.
func appendLedger(path string, rows []string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return fmt.Errorf("write to the ledger of flaky tests: %w", err)
	}
	defer f.Close()
	_, err = f.WriteString(strings.Join(rows, ""))
	return err
}
