package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDataDirClosedToOtherUsers(t *testing.T) {
	t.Parallel()
	given := filepath.Join(t.TempDir(), "lab")
	dir, _, err := (&demoLabFlags{dataDir: given}).openDataDir("lab")
	if err != nil || dir != given {
		t.Fatal(dir, err)
	}
	temporary, remove, err := (&demoLabFlags{}).openDataDir("lab")
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	for _, dir := range []string{given, temporary} {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm()&0o066 != 0 {
			t.Errorf("others may list or write %s: %v (%v)", dir, info.Mode(), err)
		}
	}
	open := filepath.Join(t.TempDir(), "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	if _, _, err := (&demoLabFlags{dataDir: open}).openDataDir("lab"); err == nil || !strings.Contains(err.Error(), "other users may write") {
		t.Errorf("a directory that all may write: %v", err)
	}
}
