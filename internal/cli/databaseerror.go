package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// databaseError returns an error that explains in one line why the database cannot be reached. It returns other errors
// unchanged.
func databaseError(err error) error {
	var connect *pgconn.ConnectError
	if !errors.As(err, &connect) {
		return err
	}
	var reasons []string // one reason per attempted address; the driver may try an address both with and without TLS
	for line := range strings.SplitSeq(errors.Unwrap(connect).Error(), "\n") {
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(reasons, line) {
			reasons = append(reasons, line)
		}
	}
	return fmt.Errorf("the database cannot be reached: %s; check that PostgreSQL runs there, and --database-url", strings.Join(reasons, "; "))
}
