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

// errNoOpinion says that nobody else can be asked on this host.
var errNoOpinion = errors.New("qemu-img is not installed here, so only Quantix itself has looked at the image")

// NoOpinion reports whether the error is that qemu-img is missing: the own reading decides then.
func NoOpinion(err error) bool { return errors.Is(err, errNoOpinion) }

// imgCall is one run of qemu-img.
type imgCall struct {
	*exec.Cmd
	said bounded // its own words
}

// stackLimit is the room of each of its threads, in bytes. It begins as many as its disk keeps waiting, 64 at most: with the usual 8 MiB of each, and an arena of
// 64 MiB, a busy host was over every limit of addresses.
const stackLimit = 1 << 20

// saidMost is how much is kept of what it writes, in bytes.
const saidMost = 1 << 20

// qemuImg is a call of it within limits, those of prlimit where that is installed.
func qemuImg(ctx context.Context, limits []string, args ...string) (*imgCall, error) {
	program, err := exec.LookPath("qemu-img")
	if err != nil {
		return nil, fmt.Errorf("%w: install qemu-utils", errNoOpinion)
	}
	all := append([]string{program}, args...)
	if limit, err := exec.LookPath("prlimit"); err == nil {
		all = slices.Concat([]string{limit, fmt.Sprintf("--stack=%d", stackLimit)}, limits, []string{"--"}, all)
	}
	c := &imgCall{Cmd: exec.CommandContext(ctx, all[0], all[1:]...)} //nolint:gosec // fixed words, and numbers
	c.Env = []string{"LC_ALL=C", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "MALLOC_ARENA_MAX=1"}
	c.WaitDelay, c.Stderr = time.Second, &c.said
	return c, nil
}

// run runs it in an empty directory, where no name stands for a file.
func (c *imgCall) run(ctx context.Context) error {
	dir, leave, err := deletedDir()
	if err != nil {
		return err
	}
	c.Dir = dir
	err = c.Start()
	if err = errors.Join(err, leave()); c.Process == nil {
		return err
	}
	return errors.Join(asSentence(ctx, c.Wait(), &c.said), err)
}

// asSentence is the error of a program with what it said itself, which is all that people need.
func asSentence(ctx context.Context, err error, said *bounded) error {
	var exit *exec.ExitError
	switch text := strings.TrimSpace(said.String()); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &exit) && text != "":
		if strings.Contains(text, "No space left on device") || strings.Contains(text, "File too large") {
			return fleet.Errorf(fleet.Conflict, "There is not enough room for it, and nothing was kept (%s).", text)
		}
		return errors.New(text)
	}
	return err
}

// bounded keeps the beginning of what is written to it.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	room := saidMost - b.Len()
	b.Buffer.Write(p[:min(len(p), max(room, 0))])
	if room < len(p) {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}
