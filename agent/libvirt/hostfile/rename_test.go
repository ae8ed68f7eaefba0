package hostfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// With and without RENAME_NOREPLACE, a rename never replaces an existing file and never removes a new file under the
// old name.
func TestRenameNeverReplacesFile(t *testing.T) {
	t.Parallel()
	for way, rename := range map[string]func(from, to string) error{"rename": RenameNoReplace, "link and unlink": linkNoReplace} {
		dir := t.TempDir()
		from, to, free := filepath.Join(dir, "from"), filepath.Join(dir, "to"), filepath.Join(dir, "free")
		for _, path := range []string{from, to} {
			if err := os.WriteFile(path, []byte(path), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := rename(from, to); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s over an existing file: %v", way, err)
		}
		if text, err := os.ReadFile(to); err != nil || string(text) != to {
			t.Errorf("%s: the existing file is %q %v", way, text, err)
		}
		if err := errors.Join(rename(from, free), UnlinkOldName(from, free), UnlinkOldName(from, free)); err != nil {
			t.Errorf("%s: %v", way, err)
		}
		if _, err := os.Lstat(from); !IsFileMissingError(err) {
			t.Errorf("%s: the old name: %v", way, err)
		}
		if err := os.WriteFile(from, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := UnlinkOldName(from, free); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(from); err != nil {
			t.Errorf("%s: the new file under the old name: %v", way, err)
		}
	}
}
