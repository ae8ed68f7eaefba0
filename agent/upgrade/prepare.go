package upgrade

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"quantix/agent/state"
	"quantix/internal/fleet"
	"quantix/internal/release"
)

// Installer installs releases on this host.
type Installer struct {
	Keys    []release.PublicKey // those that sign releases for this host; none: releases are refused
	Dir     string              // the agent's data directory
	Binary  string              // the program's file, without symbolic links
	Args    []string            // the agent's arguments, without the program's name
	Running string              // the running version
}

// NewInstaller returns an installer for the running program, which was started with the arguments.
func NewInstaller(keys []release.PublicKey, dir string, args []string, running string) (*Installer, error) {
	binary, err := os.Executable()
	if err == nil {
		binary, err = filepath.EvalSymlinks(binary)
	}
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("find the program's file: %w", err)
	}
	return &Installer{Keys: keys, Dir: dir, Binary: binary, Args: args, Running: running}, nil
}

// Order is what the portal ordered.
type Order struct {
	Job            fleet.JobID
	Version        string
	AllowDowngrade bool
}

// Source sends a release.
type Source interface {
	// Manifest returns the content of the signature file, of at most release.MaxManifestBytes.
	Manifest(ctx context.Context, version string, on release.Platform) ([]byte, error)
	Open(ctx context.Context, version string, on release.Platform) (io.ReadCloser, error)
}

// spareBytes is the space that remains free after a download.
const spareBytes = 32 << 20

// versionLimit limits the run of the new program that prints its version.
const versionLimit = 15 * time.Second

// Platform is what releases for this host run on.
func Platform() release.Platform { return release.Platform{OS: runtime.GOOS, Arch: runtime.GOARCH} }

// Prepared is a verified release beside the running program.
type Prepared struct {
	in  *Installer
	rec record
}

// Prepare downloads a release beside the program and verifies it. It makes the file executable only afterwards, and
// leaves no file behind if it fails.
func (in *Installer) Prepare(ctx context.Context, o Order, from Source, progress func(percent int, note string)) (p *Prepared, err error) {
	if len(in.Keys) == 0 {
		return nil, fleet.Errorf(fleet.Conflict, "agent.yaml of this host names no key that signs agents: set upgradeKeys.")
	}
	if !canHandOver {
		return nil, fleet.Errorf(fleet.Conflict, "An agent on %s cannot replace itself. Replace the program by hand.", runtime.GOOS)
	}
	if why := release.VersionRefusal(in.Running, o.Version, o.AllowDowngrade); why != "" {
		return nil, fleet.Errorf(fleet.Conflict, "%s", why)
	}
	text, err := from.Manifest(ctx, o.Version, Platform())
	if err != nil {
		return nil, err
	}
	m, err := release.ParseManifest(text)
	if err == nil {
		err = m.Verify(in.Keys)
	}
	switch {
	case errors.Is(err, release.ErrUntrustedKey):
		return nil, fleet.Errorf(fleet.Conflict, "The release is signed with the key %.16s, which agent.yaml of this host does not trust. Nothing was downloaded.", m.KeyID)
	case err != nil:
		return nil, fleet.Errorf(fleet.Conflict, "The release cannot be verified: %s. Nothing was downloaded.", err)
	case m.Version != o.Version || m.Platform != Platform():
		return nil, fleet.Errorf(fleet.Conflict, "The portal offers version %s for %s instead of version %s for %s. Nothing was downloaded.", m.Version, m.Platform, o.Version, Platform())
	}
	rec := record{Job: o.Job, Version: o.Version, From: in.Running, Binary: in.Binary, SHA256: m.SHA256, Args: in.Args, Phase: trial}
	defer func() {
		if err != nil {
			os.Remove(rec.candidate())
		}
	}()
	if err := os.Remove(rec.candidate()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove the remains of an earlier upgrade: %w", err)
	}
	if err := in.checkSpace(m.SizeBytes); err != nil {
		return nil, err
	}
	program, err := from.Open(ctx, o.Version, Platform())
	if err != nil {
		return nil, err
	}
	defer program.Close()
	progress(5, "Downloading "+fleet.FormatBytes(m.SizeBytes))
	if err := download(rec.candidate(), program, m); err != nil {
		return nil, err
	}
	progress(60, "Checking the new program")
	if err := checkPrintedVersion(ctx, rec.candidate(), o.Version); err != nil {
		return nil, err
	}
	return &Prepared{in, rec}, nil
}

// checkSpace refuses a download that does not fit.
func (in *Installer) checkSpace(size int64) error {
	for dir, need := range map[string]int64{filepath.Dir(in.Binary): size + spareBytes, in.Dir: 1 << 20} {
		free, err := freeBytes(dir)
		if err != nil {
			return fmt.Errorf("read the free space of %s: %w", dir, err)
		}
		if free < need {
			return fleet.Errorf(fleet.Conflict, "%s has %s free, and the upgrade needs %s. Free some space, and try again.", dir, fleet.FormatBytes(free), fleet.FormatBytes(need))
		}
	}
	return nil
}

// download writes the program to a new file that nobody can run, compares it with the manifest, and only then makes it
// executable.
func download(path string, program io.Reader, m release.Manifest) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fleet.Errorf(fleet.Conflict, "The agent cannot write to %s: %s.", filepath.Dir(path), pathErrorText(err))
	}
	defer f.Close()
	hash := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, hash), io.LimitReader(program, m.SizeBytes+1))
	if isDiskFull(err) {
		return fleet.Errorf(fleet.Conflict, "%s is full. Free some space, and try again.", filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("download the release: %w", err)
	}
	if sum := hex.EncodeToString(hash.Sum(nil)); n != m.SizeBytes || sum != m.SHA256 {
		return fleet.Errorf(fleet.Conflict, "The portal sent another program than the signed one: the SHA-256 or the size differs.")
	}
	if err := f.Sync(); err != nil {
		if isDiskFull(err) {
			return fleet.Errorf(fleet.Conflict, "%s is full. Free some space, and try again.", filepath.Dir(path))
		}
		return fmt.Errorf("write the new program: %w", err)
	}
	if err := f.Chmod(0o755); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return state.SyncDir(filepath.Dir(path))
}

// pathErrorText returns the error without the path, which the caller names.
func pathErrorText(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}

// checkPrintedVersion runs the program, which must print the version.
func checkPrintedVersion(ctx context.Context, program, version string) error {
	ctx, cancel := context.WithTimeout(ctx, versionLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "version")
	inOwnGroup(cmd)
	cmd.Cancel = func() error { return killGroup(cmd) }
	cmd.WaitDelay = time.Second
	var out tail
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	switch {
	case ctx.Err() != nil && context.Cause(ctx) == context.DeadlineExceeded: //nolint:errorlint // the context's own
		return fleet.Errorf(fleet.Conflict, "The new program did not print its version within %s.", versionLimit)
	case err != nil:
		return fleet.Errorf(fleet.Conflict, "The new program does not run on this host: %s %s", err, lastLines(out.data))
	case !strings.Contains(string(out.data), "quantix "+version+" "):
		return fleet.Errorf(fleet.Conflict, "The new program prints %q instead of version %s.", lastLines(out.data), version)
	}
	return nil
}

// Discard removes the prepared release.
func (p *Prepared) Discard() error { return os.Remove(p.rec.candidate()) }

// Commit records that the trial of the release is next. The caller then stops the agent and calls Handover.
// connected: the agent is connected to the hypervisor, so the new one must be, too.
func (p *Prepared) Commit(connected bool) (*Handover, error) {
	p.rec.Connected = connected
	if err := p.rec.write(p.in.Dir); err != nil {
		return nil, err
	}
	return &Handover{p.in.Dir, p.rec}, nil
}

// Handover is the end of an agent that becomes the supervisor of its upgrade. It is the error of the agent's Run.
type Handover struct {
	dir string
	rec record
}

func (h *Handover) Error() string {
	return "the agent stops for its upgrade to version " + h.rec.Version
}

// Exec replaces this process by the supervisor. It returns only an error.
func (h *Handover) Exec() error {
	return execProgram(h.rec.Binary, []string{"agent", SuperviseCommand, "--data-dir", h.dir})
}

// Subcommands of "quantix agent" that this package runs. A trial has the agent's own arguments.
const (
	SuperviseCommand = "supervise-upgrade"
	TrialCommand     = "trial"
)
