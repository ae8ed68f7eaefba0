package archtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	repositoryRoot = "../.."
	maxReadmeBytes = 10_000
	maxReadmeLines = 180
	maxReadmeWidth = 160 // columns
)

// TestReadmeIsShort limits README to an overview, because details belong in the manual or in a guide.
func TestReadmeIsShort(t *testing.T) {
	t.Parallel()
	text := readFile(t, filepath.Join(repositoryRoot, "README.md"))
	if len(text) > maxReadmeBytes {
		t.Errorf("README has %d bytes, more than %d", len(text), maxReadmeBytes)
	}
	if n := strings.Count(text, "\n"); n > maxReadmeLines {
		t.Errorf("README has %d lines, more than %d", n, maxReadmeLines)
	}
	for i, line := range strings.Split(text, "\n") {
		if n := len([]rune(line)); n > maxReadmeWidth {
			t.Errorf("README:%d has %d columns, more than %d", i+1, n, maxReadmeWidth)
		}
	}
}

// TestReadmeAndGuideLinksAreValid checks that relative links lead to files, and that README links to every chapter of
// the manual and every guide.
func TestReadmeAndGuideLinksAreValid(t *testing.T) {
	t.Parallel()
	guides := globFiles(t, filepath.Join(repositoryRoot, "internal/adr/guide/*.md"))
	linked := map[string]bool{}
	readme := filepath.Join(repositoryRoot, "README.md")
	for _, path := range append(guides, readme) {
		for _, link := range mdLink.FindAllStringSubmatch(readFile(t, path), -1) {
			if strings.Contains(link[1], "://") {
				continue
			}
			target := filepath.Join(filepath.Dir(path), link[1])
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which does not exist", path, link[1])
			}
			linked[target] = linked[target] || path == readme
		}
	}
	for _, path := range append(guides, globFiles(t, filepath.Join(repositoryRoot, "static/docs/*.md"))...) {
		if !linked[path] {
			t.Errorf("README does not link to %s", path)
		}
	}
}

// TestReadmeContainsCICommand checks that README contains the command that .ci/run runs.
func TestReadmeContainsCICommand(t *testing.T) {
	t.Parallel()
	_, command, found := strings.Cut(readFile(t, filepath.Join(repositoryRoot, ".ci/run")), "\nexec ")
	if command = strings.TrimSpace(command); !found || !strings.Contains(readFile(t, filepath.Join(repositoryRoot, "README.md")), "\n"+command+"\n") {
		t.Errorf("README has no line %q, which .ci/run runs", command)
	}
}

func globFiles(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no files %s: %v", pattern, err)
	}
	return files
}
