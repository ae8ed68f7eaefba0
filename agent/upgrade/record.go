// Package upgrade replaces the program of a running agent by a signed release.
//
// The steps, with the process that does each: the old agent downloads, verifies and records the release (Prepare), stops,
// and becomes the supervisor in the same process (Handover, Supervise). The supervisor runs the new program once as a
// child, in trial mode. If the trial reports to the portal, the supervisor puts the new program into place and becomes
// it; else it becomes the old agent again. The new agent is on probation until its first report (Begin).
//
// After a power loss or a crash between any two steps, the name of the program leads to a complete program, and Begin
// finishes or undoes the upgrade by the record in the agent's data directory.
package upgrade

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"quantix/agent/state"
	"quantix/internal/fleet"
)

// RecordFile is the name of the record in the agent's data directory.
const RecordFile = "upgrade.json"

// Names of the files beside the program: the release before the upgrade has ended, and the program before the upgrade.
const (
	candidateSuffix = ".upgrade"
	previousSuffix  = ".previous"
)

// phase is how far an upgrade is.
type phase string

const (
	trial     phase = "trial"     // the old program is in place
	probation phase = "probation" // the new program is in place, or is about to be, and has not reported yet
	restored  phase = "restored"  // the old program is in place again, or is about to be
)

// record is the state of an upgrade across processes.
type record struct {
	Job       fleet.JobID `json:"job"`
	Version   string      `json:"version"`
	From      string      `json:"from"`   // the version of the old program
	Binary    string      `json:"binary"` // the program's file
	SHA256    string      `json:"sha256"` // of the new program
	Args      []string    `json:"args"`   // the agent's arguments, without the program's name
	Connected bool        `json:"connected"`
	Phase     phase       `json:"phase"`
	Starts    int         `json:"starts,omitempty"` // starts of the new program on probation
	Error     string      `json:"error,omitempty"`  // why the upgrade failed, as a sentence
}

// candidate returns the file of the new program before it is in place. The name is hidden, so that no shell completes it.
func (r record) candidate() string { return candidateOf(r.Binary) }

func candidateOf(binary string) string {
	return filepath.Join(filepath.Dir(binary), "."+filepath.Base(binary)+candidateSuffix)
}

func (r record) previous() string { return r.Binary + previousSuffix }

// readRecord returns the record of the data directory; ok is false without one.
func readRecord(dir string) (r record, ok bool, err error) {
	data, err := os.ReadFile(filepath.Join(dir, RecordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return r, false, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil {
		return r, false, fmt.Errorf("read the record of the agent's upgrade: %w", err)
	}
	return r, true, nil
}

func (r record) write(dir string) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := state.WriteAtomic(filepath.Join(dir, RecordFile), data); err != nil {
		return fmt.Errorf("write the record of the agent's upgrade: %w", err)
	}
	return nil
}

func removeRecord(dir string) error {
	err := os.Remove(filepath.Join(dir, RecordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// maxReasonBytes limits the output of a failed trial in a job's error.
const maxReasonBytes = 1000

// lastLines returns the end of a program's output, in one line.
func lastLines(output []byte) string {
	text := strings.ToValidUTF8(strings.TrimSpace(string(output)), "?")
	cut := len(text) > maxReasonBytes
	if cut {
		text = strings.ToValidUTF8(text[len(text)-maxReasonBytes:], "")
	}
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7f {
				return ' '
			}
			return r
		}, line)
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	lines = lines[max(0, len(lines)-maxReasonLines):]
	out := strings.Join(lines, " | ")
	if cut {
		out = "… " + out
	}
	return out
}

const maxReasonLines = 5

// tail is a writer that keeps the end of its input.
type tail struct{ data []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.data = append(t.data, p...)
	if extra := len(t.data) - 2*maxReasonBytes; extra > 0 {
		t.data = append(t.data[:0], t.data[extra:]...)
	}
	return len(p), nil
}
