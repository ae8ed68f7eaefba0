package fleet

import "time"

// Resolution of the 24-hour history: quarters of an hour.
const (
	Quarter     = 15 * time.Minute
	DayQuarters = 96
)

// StatusHistory is the 24-hour history of a status, as runs of equal severity, oldest first. Each quarter of an hour has
// its worst severity. A quarter without data has an empty severity.
type StatusHistory []DayPart

// DayPart is a run of quarters with the same severity.
type DayPart struct {
	Severity Severity `json:"severity"` // empty: no data
	Quarters int      `json:"quarters"`
}
