// Package pooldir checks the directories of file pools: whether the agent allows a directory, and whether the directory
// is still the one that the pool was first used in.
package pooldir

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"quantix/internal/fleet"
)

// PoolRoots are the directories and devices that an agent allows for pools on its host. The portal's own check is only
// a convenience, because only the host can resolve a path.
type PoolRoots struct {
	Allowed []string // pools are allowed in and below these directories; empty: no pools are allowed
	// directories that a pool must not be, contain or lie in, such as the agent's own. Forbidden overrides Allowed.
	Forbidden []string
	Devices   []string // patterns of path.Match for block devices allowed for pools; empty: none
}

// maxLinks limits the symbolic links that a path is resolved through, as the kernel does.
const maxLinks = 40

// CheckDir resolves the symbolic links of the existing part of dir, and refuses a result outside the roots. So missing
// directories are created only below a root.
func (r PoolRoots) CheckDir(dir string) error {
	real, err := resolvePath(dir)
	if err != nil {
		return err
	}
	what := dir
	if real != dir {
		what += ", which resolves to " + real + ","
	}
	for _, root := range r.Forbidden {
		if at := resolveRoot(root); isPathWithinDir(real, at) || isPathWithinDir(at, real) {
			return fleet.Errorf(fleet.Forbidden, "The host refuses a pool at %s: Quantix stores its own files in %s.", what, at)
		}
	}
	for _, root := range r.Allowed {
		if isPathWithinDir(real, resolveRoot(root)) {
			return nil
		}
	}
	return fleet.Errorf(fleet.Forbidden, "The host refuses a pool at %s: its agent allows pools in %s only. Choose an allowed directory, or add a directory to poolRoots in the agent's settings.",
		what, formatDirs(r.Allowed))
}

func formatDirs(words []string) string {
	if len(words) == 0 {
		return "no directory"
	}
	return strings.Join(words, ", ")
}

// isPathWithinDir reports whether p is dir or lies in dir. Both paths must be clean.
func isPathWithinDir(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

// resolveRoot resolves the symbolic links of an administrator's directory. A path that cannot be resolved is only
// cleaned.
func resolveRoot(dir string) string {
	if real, err := resolvePath(dir); err == nil {
		return real
	}
	return path.Clean(dir)
}

// resolvePath returns the path without symbolic links. Missing elements stay. A link with a missing target is refused,
// because its later target is unknown.
func resolvePath(p string) (string, error) {
	if !path.IsAbs(p) {
		return "", fleet.Errorf(fleet.Invalid, "%q is not an absolute path.", p)
	}
	done, rest, links := "/", strings.Split(path.Clean(p), "/"), 0
	// number of the last elements of rest that belong to p; earlier elements belong to a link's target
	own := len(rest)
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			done = path.Dir(done)
			continue
		}
		next := path.Join(done, part)
		info, err := os.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
			if len(rest) >= own {
				return "", fleet.Errorf(fleet.Conflict, "The path %s contains a symbolic link to %s, which does not exist.", p, next)
			}
			return path.Join(append([]string{next}, rest...)...), nil
		case err != nil:
			return "", err
		case info.Mode()&fs.ModeSymlink == 0:
			done = next
			continue
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", err
		}
		if links++; links > maxLinks {
			return "", fleet.Errorf(fleet.Conflict, "The path %s contains too many symbolic links.", p)
		}
		if path.IsAbs(target) {
			done = "/"
		}
		own = min(own, len(rest))
		rest = append(strings.Split(target, "/"), rest...)
	}
	return done, nil
}
