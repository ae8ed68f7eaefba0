package agent

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"quantix/internal/fleet"
)

// PoolRoots says where on its host an agent lets pools be. The portal's own check is a courtesy: what a path really is, only
// the host can tell.
type PoolRoots struct {
	Allowed []string // pools may be these directories and those below them; none: nowhere
	Never   []string // directories that no pool may be, hold or lie in, whatever is allowed: the agent's own
	Devices []string // patterns of path.Match: block devices that pools may be on; none: no device
}

// mostLinks is how many symbolic links a path may lead through, as the kernel counts them.
const mostLinks = 40

// Check follows the path's symbolic links as far as it is there, and refuses where that leads out of the roots. What of the
// path is not there yet may so be made only below a root.
func (r PoolRoots) Check(dir string) error {
	real, err := realPath(dir)
	if err != nil {
		return err
	}
	what := dir
	if real != dir {
		what += ", which is really " + real + ","
	}
	for _, root := range r.Never {
		if at := realRoot(root); below(real, at) || below(at, real) {
			return fleet.Errorf(fleet.Forbidden, "The host refuses a pool at %s: Quantix keeps its own files in %s.", what, at)
		}
	}
	for _, root := range r.Allowed {
		if below(real, realRoot(root)) {
			return nil
		}
	}
	return fleet.Errorf(fleet.Forbidden, "The host refuses a pool at %s: its agent allows pools in %s only. Choose a directory there, or add one to poolRoots in the agent's settings.",
		what, spokenList(r.Allowed))
}

func spokenList(words []string) string {
	if len(words) == 0 {
		return "no directory"
	}
	return strings.Join(words, ", ")
}

// below reports whether p is dir or lies in it; both are clean.
func below(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

// realRoot is where an administrator's directory really is. One that cannot be followed stays as it was written.
func realRoot(dir string) string {
	if real, err := realPath(dir); err == nil {
		return real
	}
	return path.Clean(dir)
}

// realPath is the path without symbolic links. Parts that are not there yet stay; a link to what is not there is refused,
// because nobody knows what it will lead to.
func realPath(p string) (string, error) {
	if !path.IsAbs(p) {
		return "", fleet.Errorf(fleet.Invalid, "%q is not an absolute path.", p)
	}
	done, rest, links := "/", strings.Split(path.Clean(p), "/"), 0
	own := len(rest) // so many of rest's last parts are the path's own; those before them are a link's
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
				return "", fleet.Errorf(fleet.Conflict, "The path %s leads through a symbolic link to %s, which is not there.", p, next)
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
		if links++; links > mostLinks {
			return "", fleet.Errorf(fleet.Conflict, "The path %s leads through too many symbolic links.", p)
		}
		if path.IsAbs(target) {
			done = "/"
		}
		own = min(own, len(rest))
		rest = append(strings.Split(target, "/"), rest...)
	}
	return done, nil
}
