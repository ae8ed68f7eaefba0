package agent

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"quantix/agent/state"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// journal records single-shot jobs, which must never run twice, across crashes: an entry is on disk before the job
// starts to act. An entry with a beginning and no end means that the outcome is unknown: the job is reported as unknown
// and never run again.
type journal struct {
	path    string
	limit   int64 // maximum size in bytes; a larger file is compacted
	mu      sync.Mutex
	file    *os.File
	size    int64
	entries map[fleet.JobID]*journalEntry
	order   []fleet.JobID
}

// journalEntry is one line of the file. The newest line of a job is the valid one.
type journalEntry struct {
	ID         fleet.JobID   `json:"id"`
	Kind       fleet.JobKind `json:"kind"`
	Subject    fleet.Subject `json:"subject"`
	Epoch      int64         `json:"epoch"`
	Generation int64         `json:"generation"`
	Outcome    wire.Outcome  `json:"outcome,omitempty"` // empty: the job has begun and not ended
	Error      string        `json:"error,omitempty"`
	Delivered  bool          `json:"delivered,omitempty"` // the portal has accepted the outcome
}

const (
	journalLimit        = 256 << 10
	maxDeliveredEntries = 256 // delivered entries kept by a compaction
)

func openJournal(path string) (*journal, error) {
	j := &journal{path: path, limit: journalLimit, entries: map[fleet.JobID]*journalEntry{}}
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e journalEntry
		// A line that a crash left incomplete is skipped. Its job either has not begun, or has an earlier entry without
		// an outcome.
		if json.Unmarshal(lines.Bytes(), &e) == nil && e.ID != "" {
			j.addEntry(e)
		}
	}
	if err := j.compact(); err != nil {
		return nil, err
	}
	return j, nil
}

func (j *journal) addEntry(e journalEntry) {
	if _, ok := j.entries[e.ID]; !ok {
		j.order = append(j.order, e.ID)
	}
	j.entries[e.ID] = &e
}

// recordBegin records that the job is about to act. durable: the entry must survive a power loss.
func (j *journal) recordBegin(w wire.Work, epoch int64, durable bool) error {
	return j.write(journalEntry{ID: w.ID, Kind: w.Kind, Subject: w.Subject, Epoch: epoch, Generation: w.Generation}, durable)
}

// recordOutcome records the job's outcome.
func (j *journal) recordOutcome(id fleet.JobID, outcome wire.Outcome, errText string, durable bool) error {
	e, ok := j.lookup(id)
	if !ok {
		return fmt.Errorf("job %s is not in the journal", id)
	}
	e.Outcome, e.Error = outcome, errText
	return j.write(e, durable)
}

// recordDelivered records that the portal has the outcome. If a power loss removes the line, the outcome is only
// delivered again.
func (j *journal) recordDelivered(id fleet.JobID) error {
	e, ok := j.lookup(id)
	if !ok {
		return nil
	}
	e.Delivered = true
	return j.write(e, false)
}

func (j *journal) lookup(id fleet.JobID) (journalEntry, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if e, ok := j.entries[id]; ok {
		return *e, true
	}
	return journalEntry{}, false
}

// undeliveredEntries lists the entries whose outcome the portal does not have yet, oldest first.
func (j *journal) undeliveredEntries() []journalEntry {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []journalEntry
	for _, id := range j.order {
		if e := j.entries[id]; !e.Delivered {
			out = append(out, *e)
		}
	}
	return out
}

func (j *journal) write(e journalEntry, durable bool) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	n, err := j.file.Write(append(line, '\n'))
	if err != nil {
		// A partly written line would corrupt the next line, so the file is truncated to its previous size.
		return fmt.Errorf("write the journal: %w", errors.Join(err, j.file.Truncate(j.size)))
	}
	j.size += int64(n)
	if durable {
		if err := j.file.Sync(); err != nil {
			return fmt.Errorf("write the journal: %w", err)
		}
	}
	j.addEntry(e)
	if j.size > j.limit {
		return j.compact()
	}
	return nil
}

// compact rewrites the file with all open entries and the newest delivered ones.
func (j *journal) compact() error {
	var keep []fleet.JobID
	var buf bytes.Buffer
	spare := -maxDeliveredEntries
	for _, id := range j.order {
		if j.entries[id].Delivered {
			spare++
		}
	}
	for _, id := range j.order {
		e := j.entries[id]
		if e.Delivered && spare > 0 {
			spare--
			delete(j.entries, id)
			continue
		}
		line, err := json.Marshal(e)
		if err != nil {
			return err
		}
		buf.Write(append(line, '\n'))
		keep = append(keep, id)
	}
	j.order = keep
	if err := state.WriteAtomic(j.path, buf.Bytes()); err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	return j.reopen(int64(buf.Len()))
}

func (j *journal) reopen(size int64) error {
	if j.file != nil {
		j.file.Close()
	}
	f, err := os.OpenFile(j.path, os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the journal: %w", err)
	}
	j.file, j.size = f, size
	// Many open entries may keep the file large. Without a higher limit, each write would compact the file again.
	j.limit = max(journalLimit, 2*size)
	return nil
}

func (j *journal) close() error { return j.file.Close() }
