package pglocal

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
)

// programSearch describes where PostgreSQL's server programs may be, and the operating system.
type programSearch struct {
	path      []string // directories in PATH, in order of preference
	patterns  []string // globs of directories, searched after path; the highest version of a pattern comes first
	goos      string
	osRelease string // contents of /etc/os-release; empty if missing
}

func systemSearch() programSearch {
	release, _ := os.ReadFile("/etc/os-release")
	return programSearch{
		path: filepath.SplitList(os.Getenv("PATH")),
		patterns: []string{
			"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/libexec/postgresql*", "/usr/lib/postgresql*/bin",
			"/opt/homebrew/opt/postgresql*/bin", "/usr/local/opt/postgresql*/bin", "/usr/local/pgsql/bin",
		},
		goos:      runtime.GOOS,
		osRelease: string(release),
	}
}

// FindBinaries returns the directory with postgres and initdb. If there is none, the error names the command that
// installs them on this operating system.
func FindBinaries() (dir string, err error) {
	return systemSearch().find()
}

func (s programSearch) find() (string, error) {
	if dirs := s.candidateDirs(); len(dirs) > 0 {
		return dirs[0], nil
	}
	return "", fmt.Errorf("PostgreSQL's server programs (postgres, initdb) are not on this machine; looked in PATH, %s. %s",
		strings.Join(s.patterns, ", "), s.installHint())
}

// findVersion returns the directory with the programs of the major version that an existing data directory needs.
func (s programSearch) findVersion(ctx context.Context, data, major string) (string, error) {
	if _, err := s.find(); err != nil {
		return "", err
	}
	var seen []string
	for _, dir := range s.candidateDirs() {
		found, err := majorVersion(ctx, dir)
		if err != nil {
			return "", err
		}
		if found == major {
			return dir, nil
		}
		seen = append(seen, fmt.Sprintf("%s in %s", found, dir))
	}
	return "", fmt.Errorf("the data directory %s was made by PostgreSQL %s, but this machine has PostgreSQL %s; "+
		"install PostgreSQL %s, or move the data to the newer version with pg_upgrade",
		data, major, strings.Join(seen, " and "), major)
}

// candidateDirs lists every directory that contains both programs, best first, each once.
func (s programSearch) candidateDirs() []string {
	candidates := append([]string(nil), s.path...)
	for _, pattern := range s.patterns {
		found, _ := filepath.Glob(pattern) // Glob fails only for an invalid pattern
		sort.SliceStable(found, func(i, j int) bool { return firstNumberIn(found[i]) > firstNumberIn(found[j]) })
		candidates = append(candidates, found...)
	}
	var dirs []string
	seen := map[string]bool{}
	for _, dir := range candidates {
		if filepath.IsAbs(dir) && !seen[dir] && isExecutableFile(filepath.Join(dir, "postgres")) && isExecutableFile(filepath.Join(dir, "initdb")) {
			dirs = append(dirs, dir)
		}
		seen[dir] = true
	}
	return dirs
}

func isExecutableFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

var digits = regexp.MustCompile(`\d+`)

// firstNumberIn returns the first number in path, or 0.
func firstNumberIn(path string) int {
	number, _ := strconv.Atoi(digits.FindString(path))
	return number
}

// majorVersion parses the output of postgres --version. For "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)" it
// returns "15", and for version 9.6.24 "9.6".
func majorVersion(ctx context.Context, dir string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return "", fmt.Errorf("read the version of %s: %w", filepath.Join(dir, "postgres"), err)
	}
	_, version, _ := strings.Cut(string(out), ") ")
	parts := digits.FindAllString(version, 2)
	switch {
	case len(parts) == 0:
		return "", fmt.Errorf("%s printed no version: %q", filepath.Join(dir, "postgres"), out)
	case parts[0] == "9" && len(parts) == 2:
		return "9." + parts[1], nil
	}
	return parts[0], nil
}

// installHint names the command that installs PostgreSQL on this operating system.
func (s programSearch) installHint() string {
	family := s.osRelease
	is := func(names ...string) bool {
		for line := range strings.SplitSeq(family, "\n") {
			key, value, _ := strings.Cut(line, "=")
			if key != "ID" && key != "ID_LIKE" {
				continue
			}
			for word := range strings.FieldsSeq(strings.Trim(value, `"'`)) {
				if slices.Contains(names, word) {
					return true
				}
			}
		}
		return false
	}
	var command string
	switch {
	case s.goos == "darwin":
		command = "brew install postgresql@17"
	case is("debian", "ubuntu"):
		command = "apt-get install -y postgresql"
	case is("rhel", "fedora", "centos"):
		command = "dnf install -y postgresql-server"
	case is("suse", "opensuse"):
		command = "zypper install -y postgresql-server"
	case is("alpine"):
		command = "apk add postgresql"
	case is("arch"):
		command = "pacman -S --noconfirm postgresql"
	default:
		return "Install PostgreSQL's server with this system's package manager, or name a database with --database-url."
	}
	return "Install them with: " + command
}
