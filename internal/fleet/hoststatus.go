package fleet

// HostStatusesListed is how many cells of its matrix are told with an object.
const HostStatusesListed = 50

// SeverityCounts is how many cells of a matrix are drawn in each tone.
type SeverityCounts struct {
	OK      int `json:"ok"`
	Warn    int `json:"warn"`
	Bad     int `json:"bad"`
	Unknown int `json:"unknown"`
}

// Add counts n cells of one tone. What is neither well nor bad nor unknown is short of well.
func (t *SeverityCounts) Add(tone Severity, n int) {
	switch tone {
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

// All is how many cells there are.
func (t SeverityCounts) All() int { return t.OK + t.Warn + t.Bad + t.Unknown }

// HostStatusTone is the tone of Tones that cells of a tone are counted under.
func HostStatusTone(tone Severity) Severity {
	switch tone {
	case SeverityOK, SeverityBad, SeverityUnknown:
		return tone
	}
	return SeverityWarn
}

// HostStatusKeys are the filter keys of a matrix.
var HostStatusKeys = FilterKeys{
	{"name", "name of the host", nil},
	{"tone", "how it is there", texts([]Severity{SeverityOK, SeverityWarn, SeverityBad, SeverityUnknown})},
}
