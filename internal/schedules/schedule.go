// Package schedules has the snapshot schedules of VMs: their times, the retention of snapshots, and the checks of both.
package schedules

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // embeds the time zones, which a portal's system may lack

	"quantix/internal/fleet"
)

// ScheduleID identifies a snapshot schedule of a VM.
type ScheduleID string

const (
	// MaxSchedules is the maximum number of snapshot schedules of a VM.
	MaxSchedules = 4
	// MaxScheduledSnapshots is the maximum number of snapshots that all schedules of a VM may keep. Together with the
	// snapshot being taken, disks stay below DeepChain.
	MaxScheduledSnapshots = fleet.DeepChain - 2

	maxScheduleName = 40 // bytes
)

// SnapshotSchedule configures automatic snapshots of a VM and their retention.
type SnapshotSchedule struct {
	Name    string            `json:"name"`
	Enabled bool              `json:"enabled" doc:"false: no snapshots are taken or deleted"`
	Times   SnapshotTimes     `json:"times"`
	Keep    SnapshotRetention `json:"keep"`
	Memory  bool              `json:"memory,omitempty" doc:"With the memory of a guest that runs"`
	Quiesce bool              `json:"quiesce,omitempty" doc:"Without memory: the guest agent quiesces the file systems, if it answers"`
	NameAs  string            `json:"nameAs,omitempty" doc:"What its snapshots are called: {schedule}, {vm}, {date} and {time} stand for what they say; empty: {schedule} {date} {time}"`
}

// SnapshotTimes are times of day, on all or some weekdays, in a time zone.
type SnapshotTimes struct {
	EveryHours int      `json:"everyHours,omitempty" doc:"Interval from at to the end of the day: 1, 2, 3, 4, 6, 8 or 12; 0: once a day"`
	At         string   `json:"at" doc:"HH:MM"`
	Days       []string `json:"days,omitempty" doc:"mon, tue, wed, thu, fri, sat, sun; empty: every day"`
	Zone       string   `json:"zone,omitempty" doc:"Time zone, such as Europe/Berlin; empty: UTC"`
}

// SnapshotRetention limits the number of a schedule's snapshots. A snapshot is kept if any of the counts covers it.
type SnapshotRetention struct {
	Last   int `json:"last,omitempty" doc:"Number of newest snapshots to keep"`
	Hourly int `json:"hourly,omitempty" doc:"Number of hours whose newest snapshot is kept"`
	Daily  int `json:"daily,omitempty" doc:"Number of days whose newest snapshot is kept"`
	Weekly int `json:"weekly,omitempty" doc:"Number of weeks whose newest snapshot is kept"`
}

// ScheduleView is a schedule with its history.
type ScheduleView struct {
	ID ScheduleID `json:"id"`
	SnapshotSchedule
	CreatedBy string       `json:"createdBy"`
	CreatedAt time.Time    `json:"createdAt"`
	NextAt    *time.Time   `json:"nextAt,omitempty"`   // nil: the schedule is disabled; a time in the past: the snapshot is overdue
	LastAt    *time.Time   `json:"lastAt,omitempty"`   // scheduled time of the last run; nil: never
	LastTask  fleet.TaskID `json:"lastTask,omitempty"` // task of the last run
	// Missed is the number of scheduled times that passed without a snapshot before the last run. The last run takes a
	// single snapshot for all these times.
	Missed    int    `json:"missed,omitempty"`
	Trouble   string `json:"trouble,omitempty"` // why the schedule is overdue or failed, in a sentence
	Attention bool   `json:"attention,omitempty"`
	Snapshots int    `json:"kept"` // existing snapshots of the schedule
}

var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// hoursApart are the intervals that divide a day evenly.
var hoursApart = []int{0, 1, 2, 3, 4, 6, 8, 12}

// Check adds an error for each invalid field, with JSON paths below path.
func (s SnapshotSchedule) Check(c *fleet.Checks, path string) {
	at := func(field string) string { return strings.TrimPrefix(path+"."+field, ".") }
	if name := strings.TrimSpace(s.Name); name == "" || len(name) > maxScheduleName || isInvalidName(name) {
		c.Add(at("name"), "Enter a name for the schedule: one line of at most %d bytes.", maxScheduleName)
	}
	if !slices.Contains(hoursApart, s.Times.EveryHours) {
		c.Add(at("times.everyHours"), "Choose 1, 2, 3, 4, 6, 8 or 12 hours, or once a day.")
	}
	if _, ok := parseMinutes(s.Times.At); !ok {
		c.Add(at("times.at"), "Write the time as HH:MM, from 00:00 to 23:59.")
	}
	for i, d := range s.Times.Days {
		if !slices.Contains(weekdays, d) || slices.Contains(s.Times.Days[:i], d) {
			c.Add(at("times.days"), "Days are mon, tue, wed, thu, fri, sat and sun, each once.")
			break
		}
	}
	if _, err := s.Times.location(); err != nil {
		c.Add(at("times.zone"), "There is no time zone %q. Enter one such as Europe/Berlin, or UTC.", shortenForError(s.Times.Zone))
	}
	k := s.Keep
	switch {
	case min(k.Last, k.Hourly, k.Daily, k.Weekly) < 0 || max(k.Last, k.Hourly, k.Daily, k.Weekly) > MaxScheduledSnapshots:
		c.Add(at("keep.last"), "Each count must be from 0 to %d.", MaxScheduledSnapshots)
	case k.MaxKept() == 0:
		c.Add(at("keep.last"), "Keep at least one snapshot.")
	case k.MaxKept() > MaxScheduledSnapshots:
		c.Add(at("keep.last"), "All counts together may keep at most %d snapshots: a longer backing chain makes disks slow.", MaxScheduledSnapshots)
	}
	if s.Memory && s.Quiesce {
		c.Add(at("quiesce"), "A snapshot with memory does not quiesce the guest's file systems. Choose either memory or quiescing.")
	}
	if len(s.NameAs) > fleet.MaxSnapshotName || isInvalidName(s.NameAs) || strings.ContainsAny(namePlaceholders.Replace(s.NameAs), "{}") {
		c.Add(at("nameAs"), "A name is one line of at most %d bytes. Its only placeholders are {schedule}, {vm}, {date} and {time}.", fleet.MaxSnapshotName)
	}
}

var namePlaceholders = strings.NewReplacer("{schedule}", "", "{vm}", "", "{date}", "", "{time}", "")

func isInvalidName(text string) bool {
	var c fleet.Checks
	fleet.CheckSnapshot(&c, "x", text)
	return c.Err() != nil
}

func shortenForError(s string) string { return s[:min(len(s), 60)] }

// parseMinutes parses "HH:MM" as minutes since midnight.
func parseMinutes(at string) (int, bool) {
	h, m, ok := strings.Cut(at, ":")
	hours, err := strconv.Atoi(h)
	minutes, wrong := strconv.Atoi(m)
	return hours*60 + minutes, ok && len(at) == 5 && err == nil && wrong == nil && hours >= 0 && hours < 24 && minutes >= 0 && minutes < 60 && h[0] != '+' && m[0] != '+' && h[0] != '-' && m[0] != '-'
}

// location returns the time zone. "Local" is refused because it differs between portals.
func (t SnapshotTimes) location() (*time.Location, error) {
	if t.Zone == "Local" || len(t.Zone) > 60 {
		return nil, fmt.Errorf("unknown time zone %q", t.Zone)
	}
	return time.LoadLocation(t.Zone)
}

// InZone converts a time to the schedule's zone.
func (t SnapshotTimes) InZone(at time.Time) time.Time {
	if zone, err := t.location(); err == nil {
		return at.In(zone)
	}
	return at.UTC()
}

// timesOn returns the scheduled times of the day, in order. A time that a clock change skips moves to the time after
// the change. A time that occurs twice counts once.
func (t SnapshotTimes) timesOn(day time.Time) (out []time.Time) {
	if len(t.Days) > 0 && !slices.Contains(t.Days, weekdays[day.Weekday()]) {
		return nil
	}
	at, ok := parseMinutes(t.At)
	for ok && at < 24*60 {
		next := time.Date(day.Year(), day.Month(), day.Day(), at/60, at%60, 0, 0, day.Location())
		if n := len(out); n == 0 || next.After(out[n-1]) {
			out = append(out, next)
		}
		if t.EveryHours == 0 {
			break
		}
		at += t.EveryHours * 60
	}
	return out
}

// NextAfter returns the first scheduled time after the given one.
func (t SnapshotTimes) NextAfter(after time.Time) time.Time {
	day := t.InZone(after)
	for range 9 { // a week, plus a day on each side for clock changes
		for _, at := range t.timesOn(day) {
			if at.After(after) {
				return at.UTC()
			}
		}
		day = time.Date(day.Year(), day.Month(), day.Day()+1, 12, 0, 0, 0, day.Location())
	}
	return after.Add(24 * time.Hour).UTC()
}

// maxMissed is the highest number of missed times that NewestDue counts.
const maxMissed = 1000

// NewestDue returns the newest scheduled time between due and now. missed is the number of earlier times since due,
// which the run at that time replaces.
func (t SnapshotTimes) NewestDue(due, now time.Time) (at time.Time, missed int) {
	if from := now.Add(-maxMissed * time.Hour); due.Before(from) {
		due, missed = t.NextAfter(from), maxMissed
	}
	for next := t.NextAfter(due); !next.After(now); next = t.NextAfter(due) {
		due, missed = next, missed+1
	}
	return due, min(missed, maxMissed)
}

// Text returns the times as text.
func (t SnapshotTimes) Text() string {
	days := "Every day"
	if len(t.Days) > 0 && len(t.Days) < 7 {
		var names []string
		for i := range weekdays {
			if d := weekdays[(i+1)%7]; slices.Contains(t.Days, d) {
				names = append(names, strings.ToUpper(d[:1])+d[1:])
			}
		}
		days = strings.Join(names, ", ")
	}
	zone := t.Zone
	if zone == "" {
		zone = "UTC"
	}
	switch t.EveryHours {
	case 0:
		return days + " at " + t.At + " " + zone
	case 1:
		return days + " every hour from " + t.At + " " + zone
	}
	return fmt.Sprintf("%s every %d hours from %s %s", days, t.EveryHours, t.At, zone)
}

// MaxKept returns the maximum number of snapshots that the counts together can keep.
func (k SnapshotRetention) MaxKept() int { return k.Last + k.Hourly + k.Daily + k.Weekly }

// Text returns the retention as text.
func (k SnapshotRetention) Text() string {
	var out []string
	for _, w := range []struct {
		n    int
		word string
	}{{k.Last, "the last %d"}, {k.Hourly, "%d hourly"}, {k.Daily, "%d daily"}, {k.Weekly, "%d weekly"}} {
		if w.n > 0 {
			out = append(out, fmt.Sprintf(w.word, w.n))
		}
	}
	return strings.Join(out, ", ")
}

// ScheduledSnapshot is a snapshot of a schedule, with the scheduled time.
type ScheduledSnapshot struct {
	ID  fleet.SnapshotID
	Due time.Time
}

// ExpiredSnapshots returns the snapshots that none of the counts keeps, oldest first. Hours, days and weeks are in the
// time zone of times.
func (k SnapshotRetention) ExpiredSnapshots(all []ScheduledSnapshot, times SnapshotTimes) (out []ScheduledSnapshot) {
	newest := slices.Clone(all)
	slices.SortFunc(newest, func(a, b ScheduledSnapshot) int { return b.Due.Compare(a.Due) })
	kept := map[fleet.SnapshotID]bool{}
	for _, s := range newest[:min(len(newest), k.Last)] {
		kept[s.ID] = true
	}
	keep := func(n int, of func(time.Time) string) {
		seen := map[string]bool{}
		for _, s := range newest {
			if span := of(times.InZone(s.Due)); !seen[span] && len(seen) < n {
				seen[span], kept[s.ID] = true, true
			}
		}
	}
	keep(k.Hourly, func(t time.Time) string { return t.Format("2006-01-02 15 -0700") })
	keep(k.Daily, func(t time.Time) string { return t.Format(time.DateOnly) })
	keep(k.Weekly, func(t time.Time) string {
		year, week := t.ISOWeek()
		return fmt.Sprint(year, " ", week)
	})
	for _, s := range slices.Backward(newest) {
		if !kept[s.ID] {
			out = append(out, s)
		}
	}
	return out
}

// SnapshotName returns the name of the schedule's snapshot for that time, cut to the length limit.
func (s SnapshotSchedule) SnapshotName(vm string, due time.Time) string {
	as := s.NameAs
	if strings.TrimSpace(as) == "" {
		as = "{schedule} {date} {time}"
	}
	at := s.Times.InZone(due)
	name := strings.NewReplacer("{schedule}", s.Name, "{vm}", vm, "{date}", at.Format(time.DateOnly), "{time}", at.Format("15:04")).Replace(as)
	return fleet.CutSnapshotName(name)
}
