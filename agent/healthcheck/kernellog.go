package healthcheck

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	maxLogLine     = 8 << 10 // bytes of a line; the kernel writes no longer records
	logPollPeriod  = 200 * time.Millisecond
	positionPeriod = 10 * time.Second // of writes of the position
)

// KernelLog is the kernel's log, or a file to which lines are appended as if they came from it. It remembers the position
// of the last line in a file, so that each line is reported once.
type KernelLog struct {
	Path     string // "/dev/kmsg", or a file
	Position string // file with the position; empty: none, and each Follow begins at the oldest line
	root     tree

	mu sync.Mutex // one Follow at a time, because they share the position
}

// logPosition is the last reported line: the sequence number of a record in a boot, or the offset in a file.
type logPosition struct {
	Source string `json:"source"`
	Number int64  `json:"number"`
}

// Follow calls line for each line that no earlier Follow has reported, and for further ones until ctx ends.
func (l *KernelLog) Follow(ctx context.Context, line func(string)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	info, err := os.Stat(l.Path)
	if err != nil {
		return fmt.Errorf("the kernel log %s cannot be read: %w", l.Path, err)
	}
	at := l.loadPosition()
	defer func() { l.savePosition(at) }()
	if info.Mode()&os.ModeCharDevice != 0 {
		return l.followDevice(ctx, &at, line)
	}
	return l.followFile(ctx, &at, line)
}

// followDevice reads records of /dev/kmsg: "6,339,5140900,-;text". One read returns one record.
func (l *KernelLog) followDevice(ctx context.Context, at *logPosition, line func(string)) error {
	fd, err := syscall.Open(l.Path, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("the kernel log %s cannot be read: %w", l.Path, err)
	}
	defer syscall.Close(fd) //nolint:errcheck // only read
	boot, _ := l.tree().line("proc/sys/kernel/random/boot_id")
	if at.Source != boot {
		*at = logPosition{Source: boot, Number: -1}
	}
	record := make([]byte, maxLogLine)
	saved := time.Now()
	for ctx.Err() == nil {
		n, err := syscall.Read(fd, record)
		switch {
		case errors.Is(err, syscall.EAGAIN):
			pause(ctx, logPollPeriod)
			continue
		case errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.EINTR), errors.Is(err, syscall.EINVAL): // overwritten, or too long
			continue
		case err != nil:
			return fmt.Errorf("the kernel log %s cannot be read: %w", l.Path, err)
		case n == 0:
			return fmt.Errorf("the kernel log %s has ended", l.Path)
		}
		text, number, ok := parseRecord(record[:n])
		if !ok || number <= at.Number {
			continue
		}
		at.Number = number
		line(text)
		if time.Since(saved) > positionPeriod {
			l.savePosition(*at)
			saved = time.Now()
		}
	}
	return nil
}

// parseRecord returns the text and the sequence number of a record that the kernel itself wrote. Programs that write to
// the log have another facility than 0.
func parseRecord(record []byte) (text string, number int64, ok bool) {
	head, body, found := bytes.Cut(record, []byte(";"))
	fields := strings.Split(string(head), ",")
	if !found || len(fields) < 3 {
		return "", 0, false
	}
	priority, err := strconv.ParseUint(fields[0], 10, 32)
	number, err2 := strconv.ParseInt(fields[1], 10, 64)
	if err != nil || err2 != nil || priority>>3 != 0 {
		return "", 0, false
	}
	first, _, _ := bytes.Cut(body, []byte("\n")) // further lines are properties
	return string(first), number, true
}

// followFile reads the lines of a file that grows. A file that has become shorter, or another file of that name, is read
// from its beginning.
func (l *KernelLog) followFile(ctx context.Context, at *logPosition, line func(string)) error {
	saved := time.Now()
	for ctx.Err() == nil {
		n, err := l.readNew(at, line)
		if err != nil {
			return err
		}
		if n > 0 && time.Since(saved) > positionPeriod {
			l.savePosition(*at)
			saved = time.Now()
		}
		if n == 0 {
			pause(ctx, logPollPeriod)
		}
	}
	return nil
}

// readNew reports the complete lines behind the position. It returns the number of bytes read.
func (l *KernelLog) readNew(at *logPosition, line func(string)) (int, error) {
	f, err := os.Open(l.Path)
	if err != nil {
		return 0, fmt.Errorf("the kernel log %s cannot be read: %w", l.Path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	source := "file"
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		source = fmt.Sprintf("file %d:%d", s.Dev, s.Ino)
	}
	if at.Source != source || info.Size() < at.Number {
		*at = logPosition{Source: source}
	}
	part := make([]byte, 64<<10)
	n, err := f.ReadAt(part, at.Number)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	end := bytes.LastIndexByte(part[:n], '\n')
	if end < 0 && n < len(part) {
		return 0, nil // the line is not complete
	}
	if end < 0 {
		end = n - 1 // no line is so long
	}
	for text := range bytes.Lines(part[:end+1]) {
		line(string(bytes.TrimRight(text[:min(len(text), maxLogLine)], "\n")))
	}
	at.Number += int64(end + 1)
	return end + 1, nil
}

func (l *KernelLog) tree() tree {
	if l.root == "" {
		return "/"
	}
	return l.root
}

func (l *KernelLog) loadPosition() (at logPosition) {
	data, err := os.ReadFile(l.Position)
	if err != nil || json.Unmarshal(data, &at) != nil {
		return logPosition{Number: -1}
	}
	return at
}

// savePosition is best effort: without it, lines are reported again.
func (l *KernelLog) savePosition(at logPosition) {
	if l.Position == "" {
		return
	}
	data, err := json.Marshal(at)
	if err != nil {
		return
	}
	next := l.Position + ".new"
	if os.WriteFile(next, data, 0o600) == nil {
		_ = os.Rename(next, l.Position)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
