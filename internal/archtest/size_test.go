package archtest

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Limits of a package's hand-written code without tests. A package above a limit is divided.
const (
	maxPackageLines = 13_000
	maxPackageFiles = 65
)

// manyFiles lists the packages that may have more than maxPackageFiles files, with the reason.
var manyFiles = map[string]string{
	"internal/fleet": "its types depend on each other in both directions",
}

func TestPackagesWithinSizeLimits(t *testing.T) {
	t.Parallel()
	type size struct{ files, lines int }
	sizes := map[string]size{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "../.." && strings.HasPrefix(name, "."):
			return filepath.SkipDir
		case !strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, ".templ") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path) //nolint:gosec // a file of this module
		if err != nil || bytes.HasPrefix(text, []byte("// Code generated")) {
			return err
		}
		dir := filepath.ToSlash(strings.TrimPrefix(filepath.Dir(path), filepath.Join("..", "..")+string(filepath.Separator)))
		s := sizes[dir]
		sizes[dir] = size{s.files + 1, s.lines + bytes.Count(text, []byte("\n"))}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(sizes) < 20 {
		t.Fatalf("only %d packages found", len(sizes))
	}
	for dir, s := range sizes {
		if s.lines > maxPackageLines {
			t.Errorf("%s has %d lines, more than %d: move a part into a package of its own", dir, s.lines, maxPackageLines)
		}
		if s.files > maxPackageFiles && manyFiles[dir] == "" {
			t.Errorf("%s has %d files, more than %d: move a part into a package of its own", dir, s.files, maxPackageFiles)
		}
	}
}
