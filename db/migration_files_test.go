package db_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Released migrations must not change, because existing databases do not run them again. testdata/migrations.sha256
// lists the checksum of each finished migration. Add a new one with
//
//	(cd db/migration && sha256sum 0015_*.sql) >> db/testdata/migrations.sha256
func TestReleasedMigrationsAreUnchanged(t *testing.T) {
	t.Parallel()
	list, err := os.ReadFile("testdata/migrations.sha256")
	if err != nil {
		t.Fatal(err)
	}
	listed, last := map[string]string{}, ""
	for line := range strings.Lines(string(list)) {
		sum, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok || name <= last {
			t.Fatalf("%q: one line a file, in the order of their numbers", line)
		}
		listed[name], last = sum, name
	}
	files, err := filepath.Glob("migration/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(file)
		switch sum := fmt.Sprintf("%x", sha256.Sum256(text)); {
		case listed[name] == "":
			t.Errorf("%s is not listed: add its line when it is whole", name)
		case listed[name] != sum:
			t.Errorf("%s was changed. Databases that ran it will not run it again: write a new migration", name)
		}
		delete(listed, name)
	}
	for name := range listed {
		t.Errorf("%s is gone, but databases have run it", name)
	}
}
