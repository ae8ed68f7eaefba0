// Package hostcommand is the vocabulary of the commands to a host's agent: diagnostics, the agent's log and the restart of
// the agent. It reads the archives that agents send.
package hostcommand

import (
	"time"

	"quantix/internal/fleet"
)

// ArtifactID identifies an archive that an agent has sent.
type ArtifactID string

// ArtifactKind is what an archive contains.
type ArtifactKind string

// The kinds of archives.
const (
	Diagnostics ArtifactKind = "diagnostics"
	AgentLog    ArtifactKind = "agent-log"
)

// KindOfJob returns the kind of archive that a job sends; empty: none.
func KindOfJob(k fleet.JobKind) ArtifactKind {
	return map[fleet.JobKind]ArtifactKind{fleet.HostDiagnose: Diagnostics, fleet.HostAgentLog: AgentLog}[k]
}

// Limits of archives and of requests.
const (
	MaxArchive    = 8 << 20          // bytes of an archive
	MaxItem       = 1 << 20          // bytes of the text of one item
	MaxItems      = 128              // items of an archive
	ItemTimeout   = 10 * time.Second // of one item
	MaxRequested  = 16               // diagnostics of the site in one run
	Kept          = 5                // newest archives kept per host and kind
	MaxLogLines   = 2000             // lines of its log that an agent keeps
	MaxLogBytes   = 512 << 10        // bytes of these lines
	UnclaimedFor  = 2 * time.Minute  // after which a command that the host did not get is cancelled
	RestartWithin = 2 * time.Minute  // after which a restart has failed if the agent has not come back
)

// ItemStatus is how the collection of one item ended.
type ItemStatus string

// The statuses.
const (
	ItemOK        ItemStatus = "ok"
	ItemTruncated ItemStatus = "truncated" // longer than MaxItem; the text is cut
	ItemFailed    ItemStatus = "failed"
	ItemTimedOut  ItemStatus = "timed-out"
	ItemSkipped   ItemStatus = "skipped" // the host lacks what the item needs
)

// statuses has the word and the severity of each status.
var statuses = map[ItemStatus]struct {
	word     string
	severity fleet.Severity
}{
	ItemOK: {"OK", fleet.SeverityOK}, ItemTruncated: {"Truncated", fleet.SeverityWarn}, ItemFailed: {"Failed", fleet.SeverityBad},
	ItemTimedOut: {"Timed out", fleet.SeverityBad}, ItemSkipped: {"Not available", fleet.SeverityIdle},
}

// IsKnown reports whether the status exists.
func (s ItemStatus) IsKnown() bool { _, ok := statuses[s]; return ok }

// DisplayName returns the status as pages show it.
func (s ItemStatus) DisplayName() string { return statuses[s].word }

// Severity returns the status's severity on pages.
func (s ItemStatus) Severity() fleet.Severity { return statuses[s].severity }

// Item describes one item of an archive. Its text is the archive's file FileName.
type Item struct {
	Name    string     `json:"name"` // [A-Za-z0-9._-], at most 64 characters; of the site's own diagnostics: with the prefix SitePrefix
	Title   string     `json:"title"`
	Status  ItemStatus `json:"status"`
	Reason  string     `json:"reason,omitempty"` // why the status is not ok, for people
	Seconds float64    `json:"seconds"`
	Bytes   int        `json:"bytes"` // of the text in the archive
}

// SitePrefix begins the names of items that ran the site's own diagnostics.
const SitePrefix = "site-"

// LogItem is the name of the only item of an AgentLog.
const LogItem = "agent-log"

// FileName returns the name of the item's file in the archive.
func (i Item) FileName() string { return i.Name + ".txt" }

// Summary describes an archive.
type Summary struct {
	Items []Item `json:"items"`
}

// Count returns the number of items whose status has the severity.
func (s Summary) Count(severity fleet.Severity) (n int) {
	for _, i := range s.Items {
		if i.Status.Severity() == severity {
			n++
		}
	}
	return n
}

// Artifact is an archive as the portal stores it, without its bytes.
type Artifact struct {
	ID     ArtifactID   `json:"id"`
	HostID fleet.HostID `json:"hostId"`
	Kind   ArtifactKind `json:"kind"`
	TaskID fleet.TaskID `json:"taskId"`
	By     string       `json:"by"` // who requested it
	At     time.Time    `json:"at"`
	Size   int64        `json:"sizeBytes"`
	Summary
}

// CheckRequested checks the names of the site's own diagnostics that somebody requests of a host that reports offered.
func CheckRequested(c *fleet.Checks, path string, names, offered []string) {
	if len(names) > MaxRequested {
		c.Add(path, "Choose %d diagnostics of the site at most.", MaxRequested)
	}
	seen := map[string]bool{}
	for _, o := range offered {
		seen[o] = true
	}
	for _, n := range names {
		if !fleet.IsDiagnosticName(n) || !seen[n] {
			c.Add(path, "The host has no diagnostic %q in its diagnosticsDir.", n)
		}
	}
}
