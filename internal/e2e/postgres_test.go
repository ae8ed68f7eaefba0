//go:build linux && ordeal

package e2e

import (
	"context"
	"path/filepath"
	"testing"

	"quantix/internal/pglocal"
)

// newPostgres starts a PostgreSQL server for one test, with its data in dir below root, and stops it when the test
// ends.
func newPostgres(t *testing.T, dir string) *pglocal.Server {
	t.Helper()
	pg, err := pglocal.Start(t.Context(), pglocal.Options{Dir: filepath.Join(root, dir), Unsafe: true, DieWithParent: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), endLimit)
		defer cancel()
		if err := pg.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return pg
}
