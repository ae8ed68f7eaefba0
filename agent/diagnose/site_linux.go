package diagnose

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"syscall"

	"quantix/internal/fleet"
	"quantix/internal/hostcommand"
)

// Site is the directory of the site's own diagnostics: executables that an administrator of the host has put there.
type Site struct {
	Dir   string // empty: none
	owner uint32 // who must own the directory and the files; root, except in tests
}

// open opens the directory. Its files cannot be replaced by others than its owner.
func (s Site) open() (*os.File, error) {
	dir, err := os.OpenFile(s.Dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("open diagnosticsDir: %w", err)
	}
	info, err := dir.Stat()
	if err == nil {
		err = s.checkOwner("The directory", info)
	}
	if err != nil {
		dir.Close()
		return nil, err
	}
	return dir, nil
}

func (s Site) checkOwner(what string, info fs.FileInfo) error {
	switch stat, ok := info.Sys().(*syscall.Stat_t); {
	case !ok || stat.Uid != s.owner:
		return fmt.Errorf("%s %s is not owned by root", what, info.Name())
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s %s can be changed by others than its owner: take away that permission (chmod go-w)", what, info.Name())
	}
	return nil
}

// checkFile refuses everything but an executable file of the owner that only the owner may change. A symbolic link is not a
// regular file.
func (s Site) checkFile(info fs.FileInfo) error {
	switch {
	case !info.Mode().IsRegular():
		return fmt.Errorf("the file %s is not a regular file", info.Name())
	case info.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("the file %s is not executable", info.Name())
	}
	return s.checkOwner("The file", info)
}

// Names returns the names of the diagnostics that can be run, in order, at most fleet.MaxSiteDiagnostics.
func (s Site) Names() []string {
	if s.Dir == "" {
		return nil
	}
	dir, err := s.open()
	if err != nil {
		return nil
	}
	defer dir.Close()
	entries, err := dir.ReadDir(4 * fleet.MaxSiteDiagnostics)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil
	}
	var out []string
	for _, e := range entries {
		if info, err := e.Info(); err == nil && fleet.IsDiagnosticName(e.Name()) && s.checkFile(info) == nil {
			out = append(out, e.Name())
		}
	}
	slices.Sort(out)
	return out[:min(len(out), fleet.MaxSiteDiagnostics)]
}

// Items returns one item for each name. Each checks its file again when it runs.
func (s Site) Items(names []string) []Item {
	var out []Item
	for _, name := range names {
		if !fleet.IsDiagnosticName(name) { // the portal has checked it
			continue
		}
		out = append(out, Item{hostcommand.SitePrefix + name, "Site: " + name, func(ctx context.Context, to io.Writer) error { return s.run(ctx, name, to) }})
	}
	return out
}

// run runs the diagnostic without arguments. It opens the directory once and runs the file through it, so that nobody who
// can move the directory chooses another file after the check.
func (s Site) run(ctx context.Context, name string, to io.Writer) error {
	if s.Dir == "" {
		return errors.New("agent.yaml of this host names no diagnosticsDir")
	}
	dir, err := s.open()
	if err != nil {
		return err
	}
	defer dir.Close()
	info, err := os.Lstat(fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), name))
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("diagnosticsDir of this host has no file " + name)
	}
	if err == nil {
		err = s.checkFile(info)
	}
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "/proc/self/fd/3/"+name) //nolint:gosec // a checked file of root
	cmd.Args = []string{name}
	cmd.ExtraFiles = []*os.File{dir}
	return runCommand(ctx, cmd, to)
}
