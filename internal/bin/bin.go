// Package bin defines the recycle bin: deleted VMs that stay restorable on their hosts for some days.
package bin

import (
	"strconv"
	"time"

	"quantix/internal/fleet"
)

// MaxDays limits Settings.Days.
const MaxDays = 365

// Settings are the settings of the recycle bin that apply to a project.
type Settings struct {
	Days    int  `json:"days" doc:"Days for which deleted VMs stay in the recycle bin; 0: they are deleted at once"`
	Counted bool `json:"countsTowardsQuota" doc:"Whether disks and snapshots in the recycle bin count towards the quota"`
}

// Overrides are a project's own settings. A nil field is the fleet's.
type Overrides struct {
	Days    *int  `json:"days,omitempty" doc:"Days for which deleted VMs stay in the recycle bin; 0: they are deleted at once; left out: as the fleet"`
	Counted *bool `json:"countsTowardsQuota,omitempty" doc:"Whether disks and snapshots in the recycle bin count towards the quota; left out: as the fleet"`
}

// ProjectSettings are the settings of a project.
type ProjectSettings struct {
	Settings           // in effect
	Fleet    Settings  `json:"fleet" doc:"The settings of the fleet"`
	Own      Overrides `json:"own" doc:"The project's own settings"`
}

// CheckDays adds an error if the number of days is invalid.
func CheckDays(c *fleet.Checks, days int) {
	if days < 0 || days > MaxDays {
		c.Add("days", "Enter 0 to %d days. With 0 days, VMs are deleted at once.", MaxDays)
	}
}

// Text describes the settings: "7 days, counted towards quota".
func (s Settings) Text() string {
	if s.Days == 0 {
		return "off"
	}
	if s.Counted {
		return DaysText(s.Days) + ", counted towards quota"
	}
	return DaysText(s.Days) + ", not counted towards quota"
}

// Text describes the project's own settings for the audit log: "days 3, quota as fleet".
func (o Overrides) Text() string {
	days, counted := "as fleet", "as fleet"
	if o.Days != nil {
		days = strconv.Itoa(*o.Days)
	}
	if o.Counted != nil {
		counted = map[bool]string{true: "counted", false: "not counted"}[*o.Counted]
	}
	return "days " + days + ", quota " + counted
}

// DaysText formats a number of days: "1 day", "7 days".
func DaysText(n int) string { return fleet.CountWithUnit(n, "day") }

// Item is a VM in the recycle bin.
type Item struct {
	ID          fleet.VMID      `json:"id"`
	Type        string          `json:"type" enum:"vm"`
	Name        string          `json:"name" doc:"Its name when it was deleted"`
	ProjectID   fleet.ProjectID `json:"projectId"`
	ProjectName string          `json:"projectName"`
	HostID      fleet.HostID    `json:"hostId,omitempty" doc:"Host that has it; only for users who see hosts"`
	HostName    string          `json:"hostName,omitempty"`
	SizeBytes   int64           `json:"sizeBytes" doc:"Virtual size of its disks"`
	Disks       int             `json:"disks" doc:"Number of its disks"`
	DeletedBy   string          `json:"deletedBy"`
	DeletedAt   time.Time       `json:"deletedAt"`
	PurgeAt     time.Time       `json:"purgeAt" doc:"When it is deleted with its disks"`
	Counted     bool            `json:"countsTowardsQuota"`
	State       State           `json:"state"`
	InUse       string          `json:"inUse,omitempty" doc:"Which other host reports a guest with its UUID, so that its disks are not deleted"`
	Error       string          `json:"error,omitempty" doc:"Why the last attempt to power it off or to purge it failed"`
}

// State is the state of an item.
type State string

// States of items.
const (
	Waiting  State = "waiting"  // powered off, until it is restored or purged
	Stopping State = "stopping" // its host powers it off
	Running  State = "running"  // its guest runs, on its host or on another host
	Purging  State = "purging"  // its purge is requested
	Unknown  State = "unknown"  // its host is offline
)

// States lists all states.
var States = []State{Waiting, Stopping, Running, Purging, Unknown}

// StateOf returns the state of a VM with the reported power state. inUse: another host reports its guest; purging: its
// deletion is requested; stopping: the job that powers it off has not ended; fresh: its host's reports are fresh.
func StateOf(power fleet.Power, inUse, purging, stopping, fresh bool) State {
	switch {
	case purging:
		return Purging
	case stopping:
		return Stopping
	case inUse:
		return Running
	case !fresh:
		return Unknown
	case power == fleet.Running || power == fleet.Paused:
		return Running
	}
	return Waiting
}

// DisplayName returns the state as pages show it.
func (s State) DisplayName() string {
	return map[State]string{Waiting: "Powered off", Stopping: "Powering off", Running: "Running", Purging: "Being purged", Unknown: "Host offline"}[s]
}

// Severity returns the state's severity on pages.
func (s State) Severity() fleet.Severity {
	return map[State]fleet.Severity{Waiting: fleet.SeverityIdle, Stopping: fleet.SeverityIdle, Running: fleet.SeverityWarn, Purging: fleet.SeverityWarn, Unknown: fleet.SeverityUnknown}[s]
}

// RestoreRefusal returns why the item cannot be restored; empty: it can.
func (i Item) RestoreRefusal() string {
	if i.State == Purging {
		return "The VM is being purged."
	}
	return ""
}

// PurgeRefusal returns why the item cannot be purged; empty: it can.
func (i Item) PurgeRefusal() string {
	switch {
	case i.State == Purging:
		return "The VM is being purged already."
	case i.InUse != "":
		return "The VM's disks cannot be deleted now: " + i.InUse
	case i.State == Running:
		return "The VM runs on its host. Shut its guest down there, or restore the VM."
	}
	return ""
}

// PurgeText returns when the item is purged: "in 6 days", "within a day", "overdue".
func (i Item) PurgeText(now time.Time) string {
	left := i.PurgeAt.Sub(now)
	switch {
	case left <= 0 && i.State == Running:
		return "when it is off"
	case left <= 0 && i.State == Unknown:
		return "when its host is online"
	case left <= 0:
		return "now"
	case left < 24*time.Hour:
		return "within a day"
	}
	return "in " + DaysText(int((left+12*time.Hour)/(24*time.Hour)))
}
