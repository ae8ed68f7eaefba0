package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"

	"quantix/internal/fleet"
)

// errNoQemuImg is returned if qemu-img is not installed.
var errNoQemuImg = errors.New("qemu-img is not installed, so only Quantix's own checks were run on the image")

// IsQemuImgMissing reports whether err means that qemu-img is missing. Then only this package's own checks apply.
func IsQemuImgMissing(err error) bool { return errors.Is(err, errNoQemuImg) }

// qemuImgCall is one run of qemu-img.
type qemuImgCall struct {
	*exec.Cmd
	stderr limitedOutput
}

// threadStackBytes is the stack size in bytes of each qemu-img thread. qemu-img starts one thread per waiting request,
// at most 64. With default stacks of 8 MiB and malloc arenas of 64 MiB, slow storage made it exceed any address space
// limit.
const threadStackBytes = 1 << 20

// maxErrorOutputBytes limits the stored error output in bytes.
const maxErrorOutputBytes = 1 << 20

// newQemuImgCall returns a call of qemu-img within limits. limits are arguments of prlimit, and ignored if prlimit is
// not installed.
func newQemuImgCall(ctx context.Context, limits []string, args ...string) (*qemuImgCall, error) {
	program, err := exec.LookPath("qemu-img")
	if err != nil {
		return nil, fmt.Errorf("%w: install qemu-utils", errNoQemuImg)
	}
	all := append([]string{program}, args...)
	if limit, err := exec.LookPath("prlimit"); err == nil {
		all = slices.Concat([]string{limit, fmt.Sprintf("--stack=%d", threadStackBytes)}, limits, []string{"--"}, all)
	}
	c := &qemuImgCall{Cmd: exec.CommandContext(ctx, all[0], all[1:]...)} //nolint:gosec // fixed words, and numbers
	c.Env = []string{"LC_ALL=C", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "MALLOC_ARENA_MAX=1"}
	c.WaitDelay, c.Stderr = time.Second, &c.stderr
	return c, nil
}

// run runs qemu-img in an empty directory, so that a relative name refers to no file.
func (c *qemuImgCall) run(ctx context.Context) error {
	dir, closeDir, err := newDeletedDir()
	if err != nil {
		return err
	}
	c.Dir = dir
	err = c.Start()
	if err = errors.Join(err, closeDir()); c.Process == nil {
		return err
	}
	return errors.Join(programError(ctx, c.Wait(), &c.stderr), err)
}

// programError returns the program's error output as the error.
func programError(ctx context.Context, err error, stderr *limitedOutput) error {
	var exit *exec.ExitError
	switch text := strings.TrimSpace(stderr.String()); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &exit) && text != "":
		if strings.Contains(text, "No space left on device") || strings.Contains(text, "File too large") {
			return fleet.Errorf(fleet.Conflict, "There is not enough free space for the volume. The partial file was deleted (%s).", text)
		}
		return errors.New(text)
	}
	return err
}

// limitedOutput stores the beginning of its written data, up to maxErrorOutputBytes.
type limitedOutput struct{ bytes.Buffer }

func (b *limitedOutput) Write(p []byte) (int, error) {
	room := maxErrorOutputBytes - b.Len()
	b.Buffer.Write(p[:min(len(p), max(room, 0))])
	if room < len(p) {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}
