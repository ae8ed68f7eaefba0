package fleet

// HostStatusesListed is the maximum number of host statuses returned with an object.
const HostStatusesListed = 50

// SeverityCounts counts the statuses of an object on its hosts, by severity.
type SeverityCounts struct {
	OK      int `json:"ok"`
	Warn    int `json:"warn"`
	Bad     int `json:"bad"`
	Unknown int `json:"unknown"`
}

// Add counts n statuses of one severity. Any other severity counts as a warning.
func (t *SeverityCounts) Add(severity Severity, n int) {
	switch severity {
	case SeverityOK:
		t.OK += n
	case SeverityBad:
		t.Bad += n
	case SeverityUnknown:
		t.Unknown += n
	default:
		t.Warn += n
	}
}

// All returns the total number of statuses.
func (t SeverityCounts) All() int { return t.OK + t.Warn + t.Bad + t.Unknown }

// CountedSeverity returns the severity that SeverityCounts.Add uses for a status of this severity.
func CountedSeverity(severity Severity) Severity {
	switch severity {
	case SeverityOK, SeverityBad, SeverityUnknown:
		return severity
	}
	return SeverityWarn
}

// HostStatusKeys are the filter keys of the matrix of hosts and their pools or networks.
var HostStatusKeys = FilterKeys{
	textKey("name", "name of the host"),
	oneOfKey("health", "health on the host", toStrings([]Severity{SeverityOK, SeverityWarn, SeverityBad, SeverityUnknown}), "tone"),
}
