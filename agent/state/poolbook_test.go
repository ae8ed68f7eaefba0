package state

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantix/agent/pooldir"
	"quantix/internal/fleet"
)

func TestPoolBookSurvivesRestart(t *testing.T) {
	t.Parallel()
	const mine, theirs = fleet.PoolID("01994c2e-0000-7000-8000-000000000001"), fleet.PoolID("01994c2e-0000-7000-8000-000000000002")
	dir := t.TempDir()
	book := func() *PoolRecords {
		t.Helper()
		b, err := OpenPoolRecords(dir)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	kept := pooldir.RecordedPool{ID: mine, Path: "/srv/vm", Place: &pooldir.RecordedDir{Marked: true, Inode: 7}, Boot: "b", Failing: true}
	if err := book().Put("fast", kept); err != nil {
		t.Fatal(err)
	}
	if got, ok := book().RecordOf(fleet.Pool{ID: mine, Name: "fast"}); !ok || !got.Equal(kept) {
		t.Errorf("the record is %+v, %v", got, ok)
	}
	if got, ok := book().RecordOf(fleet.Pool{ID: theirs, Name: "fast"}); ok || !got.Equal(pooldir.RecordedPool{}) {
		t.Errorf("the record of another pool with that name is %+v, %v", got, ok)
	}
	if err := book().Forget("fast"); err != nil {
		t.Fatal(err)
	}
	if _, ok := book().RecordNamed("fast"); ok {
		t.Error("the record was not deleted")
	}
	if err := os.WriteFile(filepath.Join(dir, PoolBookFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenPoolRecords(dir); err == nil || !strings.Contains(err.Error(), "remove the file") {
		t.Errorf("a broken book: %v", err)
	}
}
