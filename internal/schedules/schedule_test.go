package schedules_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/schedules"
)

func parseTime(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse("2006-01-02 15:04", text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestScheduleComputesNextAndMissedTimes(t *testing.T) {
	for _, c := range []struct {
		times       schedules.SnapshotTimes
		after, next string
	}{
		{schedules.SnapshotTimes{At: "03:30"}, "2026-03-01 03:29", "2026-03-01 03:30"},
		{schedules.SnapshotTimes{At: "03:30"}, "2026-03-01 03:30", "2026-03-02 03:30"},
		{schedules.SnapshotTimes{At: "00:15", EveryHours: 6}, "2026-03-01 07:00", "2026-03-01 12:15"},
		{schedules.SnapshotTimes{At: "00:15", EveryHours: 6}, "2026-03-01 18:15", "2026-03-02 00:15"},
		{schedules.SnapshotTimes{At: "22:00", EveryHours: 1}, "2026-03-01 23:00", "2026-03-02 22:00"},
		{schedules.SnapshotTimes{At: "09:00", Days: []string{"sun"}}, "2026-03-02 00:00", "2026-03-08 09:00"},
		{schedules.SnapshotTimes{At: "09:00", Days: []string{"mon", "fri"}}, "2026-03-02 09:00", "2026-03-06 09:00"},
		{schedules.SnapshotTimes{At: "01:00", Zone: "Europe/Berlin"}, "2026-01-10 12:00", "2026-01-11 00:00"},
		{schedules.SnapshotTimes{At: "01:00", Zone: "Europe/Berlin"}, "2026-07-10 12:00", "2026-07-10 23:00"},
		// The clock change skips this time.
		{schedules.SnapshotTimes{At: "02:30", Zone: "Europe/Berlin"}, "2026-03-28 12:00", "2026-03-29 01:30"},
		// This time occurs twice at the clock change.
		{schedules.SnapshotTimes{At: "02:30", Zone: "Europe/Berlin"}, "2026-10-24 23:00", "2026-10-25 01:30"},
		{schedules.SnapshotTimes{At: "02:30", Zone: "Europe/Berlin"}, "2026-10-25 01:30", "2026-10-26 01:30"},
		{schedules.SnapshotTimes{At: "23:00", Days: []string{"mon"}, Zone: "America/New_York"}, "2026-01-12 23:00", "2026-01-13 04:00"},
	} {
		if got := c.times.NextAfter(parseTime(t, c.after)); !got.Equal(parseTime(t, c.next)) {
			t.Errorf("%s after %s: %s, want %s", c.times.Text(), c.after, got, c.next)
		}
	}
	daily := schedules.SnapshotTimes{At: "03:30"}
	for _, c := range []struct {
		due, now, at string
		missed       int
	}{
		{"2026-03-01 03:30", "2026-03-01 03:30", "2026-03-01 03:30", 0},
		{"2026-03-01 03:30", "2026-03-02 03:29", "2026-03-01 03:30", 0},
		{"2026-03-01 03:30", "2026-03-04 04:00", "2026-03-04 03:30", 3},
		{"2020-03-01 03:30", "2026-03-04 04:00", "2026-03-04 03:30", 1000},
	} {
		if at, missed := daily.NewestDue(parseTime(t, c.due), parseTime(t, c.now)); !at.Equal(parseTime(t, c.at)) || missed != c.missed {
			t.Errorf("due %s, now %s: %s and %d missed", c.due, c.now, at, missed)
		}
	}
}

func TestScheduleRetentionKeepsNewestPerPeriod(t *testing.T) {
	var all []schedules.ScheduledSnapshot
	for i := range 24 * 21 { // hourly over three weeks, from a Monday
		all = append(all, schedules.ScheduledSnapshot{ID: fleet.SnapshotID(strconv.Itoa(i)), Due: parseTime(t, "2026-03-02 00:00").Add(time.Duration(i) * time.Hour)})
	}
	for _, c := range []struct {
		keep schedules.SnapshotRetention
		want string
	}{
		{schedules.SnapshotRetention{Last: 3}, "501 502 503"},
		{schedules.SnapshotRetention{Daily: 2}, "479 503"},
		{schedules.SnapshotRetention{Weekly: 3}, "167 335 503"},
		{schedules.SnapshotRetention{Hourly: 2, Daily: 2, Weekly: 2}, "335 479 502 503"},
		{schedules.SnapshotRetention{}, ""},
	} {
		gone := map[fleet.SnapshotID]bool{}
		for _, s := range c.keep.ExpiredSnapshots(all, schedules.SnapshotTimes{}) {
			gone[s.ID] = true
		}
		var kept []string
		for _, s := range all {
			if !gone[s.ID] {
				kept = append(kept, string(s.ID))
			}
		}
		if got := strings.Join(kept, " "); got != c.want {
			t.Errorf("%s keeps %s, want %s", c.keep.Text(), got, c.want)
		}
	}
	if first := (schedules.SnapshotRetention{Last: 1}).ExpiredSnapshots(all, schedules.SnapshotTimes{}); first[0].ID != "0" {
		t.Errorf("the first expired snapshot is not the oldest: %s", first[0].ID)
	}
}

// hasErrorForField reports whether the error has an entry for the field.
func hasErrorForField(err error, field string) bool {
	e, ok := errors.AsType[*fleet.Error](err)
	return ok && slices.ContainsFunc(e.Fields, func(f fleet.FieldError) bool { return f.Field == field })
}

func TestInvalidSnapshotScheduleRefused(t *testing.T) {
	good := schedules.SnapshotSchedule{Name: "nightly", Times: schedules.SnapshotTimes{At: "03:30"}, Keep: schedules.SnapshotRetention{Last: 2}, NameAs: "{schedule} of {vm} {date} {time}"}
	for field, change := range map[string][]func(*schedules.SnapshotSchedule){
		"": {func(*schedules.SnapshotSchedule) {}, func(s *schedules.SnapshotSchedule) { s.Times.Zone = "Europe/Berlin" }},
		"name": {func(s *schedules.SnapshotSchedule) { s.Name = " " }, func(s *schedules.SnapshotSchedule) { s.Name = "a\nb" }, func(s *schedules.SnapshotSchedule) {
			s.Name = strings.Repeat("a", 41)
		}},
		"times.everyHours": {func(s *schedules.SnapshotSchedule) { s.Times.EveryHours = 5 }, func(s *schedules.SnapshotSchedule) { s.Times.EveryHours = -1 }},
		"times.at": {
			func(s *schedules.SnapshotSchedule) { s.Times.At = "" }, func(s *schedules.SnapshotSchedule) { s.Times.At = "24:00" },
			func(s *schedules.SnapshotSchedule) { s.Times.At = "3:30" }, func(s *schedules.SnapshotSchedule) { s.Times.At = "+3:30" },
			func(s *schedules.SnapshotSchedule) { s.Times.At = "03:3:" },
		},
		"times.days": {func(s *schedules.SnapshotSchedule) { s.Times.Days = []string{"someday"} }, func(s *schedules.SnapshotSchedule) { s.Times.Days = []string{"mon", "mon"} }},
		"times.zone": {
			func(s *schedules.SnapshotSchedule) { s.Times.Zone = "Local" }, func(s *schedules.SnapshotSchedule) { s.Times.Zone = "../../etc/passwd" },
			func(s *schedules.SnapshotSchedule) { s.Times.Zone = strings.Repeat("a", 100) },
		},
		"keep.last": {
			func(s *schedules.SnapshotSchedule) { s.Keep.Last = 0 }, func(s *schedules.SnapshotSchedule) { s.Keep.Last = -1 },
			func(s *schedules.SnapshotSchedule) { s.Keep = schedules.SnapshotRetention{Last: 3, Daily: 4} },
			func(s *schedules.SnapshotSchedule) { s.Keep.Hourly = 1 << 62; s.Keep.Daily = 1 << 62 },
		},
		"quiesce": {func(s *schedules.SnapshotSchedule) { s.Memory, s.Quiesce = true, true }},
		"nameAs":  {func(s *schedules.SnapshotSchedule) { s.NameAs = "{host}" }, func(s *schedules.SnapshotSchedule) { s.NameAs = "a\u202eb" }, func(s *schedules.SnapshotSchedule) { s.NameAs = "{" }},
	} {
		for i, do := range change {
			s := good
			do(&s)
			var c fleet.Checks
			s.Check(&c, "")
			err := c.Err()
			if (err == nil) != (field == "") || err != nil && !hasErrorForField(err, field) {
				t.Errorf("%s, %d: %v", field, i, err)
			}
		}
	}
	due := parseTime(t, "2026-01-10 23:30")
	berlin := good
	berlin.Times.Zone = "Europe/Berlin"
	if got := berlin.SnapshotName("web", due); got != "nightly of web 2026-01-11 00:30" {
		t.Errorf("snapshot name is %q", got)
	}
	berlin.NameAs = ""
	if got := berlin.SnapshotName(strings.Repeat("ü", 60), due); got != "nightly 2026-01-11 00:30" {
		t.Errorf("snapshot name is %q", got)
	}
	berlin.NameAs = "{vm}"
	if got := berlin.SnapshotName("a"+strings.Repeat("ü", 60), due); len(got) != 79 {
		t.Errorf("snapshot name is %q", got)
	}
}
