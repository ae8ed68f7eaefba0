package healthpolicy

import "quantix/internal/healthevent"

// OfHost is what policies match and do on one host.
type OfHost struct {
	Matches []Match `json:"matches" doc:"Open matches, in the order of the actions"`
	Acts    []Act   `json:"acts" doc:"What policies did to the host"`
}

// maxTrialMatches is the maximum number of events in Trial.Matches.
const maxTrialMatches = 100

// Trial is what an expression gives for the events of the last days.
type Trial struct {
	Events    int                 `json:"events" doc:"Number of events that were tried"`
	More      bool                `json:"more,omitempty" doc:"There are older events of the last 7 days that were not tried"`
	Matched   int                 `json:"matched" doc:"Number of events that match"`
	Matches   []healthevent.Event `json:"matches" doc:"The newest events that match, at most 100"`
	Failed    int                 `json:"failed" doc:"Number of events for which the evaluation failed"`
	Failure   string              `json:"failure,omitempty" doc:"Why the evaluation failed for the first of them"`
	Missing   int                 `json:"missing" doc:"Number of events that lack a value which the expression reads"`
	Missed    string              `json:"missed,omitempty" doc:"What the first of them lacks"`
	Hosts     int                 `json:"hosts" doc:"Number of hosts"`
	NowHosts  []string            `json:"nowHosts" doc:"Names of the hosts whose conditions match now"`
	NowCounts int                 `json:"nowConditions" doc:"Number of conditions that match now"`
}

// Add counts the result for one event. reason is why the evaluation failed; missing: the event lacks a value.
func (t *Trial) Add(e healthevent.Event, matches, missing bool, reason string) {
	switch {
	case matches:
		if t.Matched++; len(t.Matches) < maxTrialMatches {
			t.Matches = append(t.Matches, e)
		}
	case missing:
		if t.Missing++; t.Missed == "" {
			t.Missed = reason
		}
	case reason != "":
		if t.Failed++; t.Failure == "" {
			t.Failure = reason
		}
	}
}
