package pglocal

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestFindPrefersPATHThenHighestPostgresVersion(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no executable bit")
	}
	root := t.TempDir()
	install := func(dir string, programs ...string) string {
		dir = filepath.Join(root, dir)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, program := range programs {
			if err := os.WriteFile(filepath.Join(dir, program), nil, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	install("lib/9.6/bin", "postgres", "initdb")
	newest := install("lib/17/bin", "postgres", "initdb")
	install("lib/18/bin", "psql")
	inPath := install("sbin", "postgres", "initdb")
	patterns := []string{filepath.Join(root, "lib/*/bin")}

	if got, err := (programSearch{patterns: patterns}).find(); err != nil || got != newest {
		t.Errorf("got %s, %v; want %s", got, err, newest)
	}
	if got, err := (programSearch{path: []string{"", inPath}, patterns: patterns}).find(); err != nil || got != inPath {
		t.Errorf("got %s, %v; want %s", got, err, inPath)
	}
}

func TestMissingPostgresErrorNamesInstallCommand(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		search programSearch
		want   string
	}{
		"Debian":  {programSearch{goos: "linux", osRelease: "ID=debian\n"}, "apt-get install -y postgresql"},
		"Ubuntu":  {programSearch{goos: "linux", osRelease: "NAME=\"Ubuntu\"\nID=ubuntu\nID_LIKE=debian\n"}, "apt-get install -y postgresql"},
		"Rocky":   {programSearch{goos: "linux", osRelease: "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n"}, "dnf install -y postgresql-server"},
		"Alpine":  {programSearch{goos: "linux", osRelease: "ID=alpine\n"}, "apk add postgresql"},
		"macOS":   {programSearch{goos: "darwin"}, "brew install postgresql"},
		"unknown": {programSearch{goos: "plan9"}, "--database-url"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := c.search.find()
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
		})
	}
}
