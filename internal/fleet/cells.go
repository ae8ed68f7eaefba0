package fleet

// CellsTold is how many cells of its matrix are told with an object.
const CellsTold = 50

// Tones is how many cells of a matrix are drawn in each tone.
type Tones struct {
	OK      int `json:"ok"`
	Warn    int `json:"warn"`
	Bad     int `json:"bad"`
	Unknown int `json:"unknown"`
}

// Add counts n cells of one tone. What is neither well nor bad nor unknown is short of well.
func (t *Tones) Add(tone Tone, n int) {
	switch tone {
	case ToneOK:
		t.OK += n
	case ToneBad:
		t.Bad += n
	case ToneUnknown:
		t.Unknown += n
	default:
		t.Warn += n
	}
}

// All is how many cells there are.
func (t Tones) All() int { return t.OK + t.Warn + t.Bad + t.Unknown }

// CellTone is the tone of Tones that cells of a tone are counted under.
func CellTone(tone Tone) Tone {
	switch tone {
	case ToneOK, ToneBad, ToneUnknown:
		return tone
	}
	return ToneWarn
}

// CellKeys are the filter keys of a matrix.
var CellKeys = FilterKeys{
	{"name", "name of the host", nil},
	{"tone", "how it is there", texts([]Tone{ToneOK, ToneWarn, ToneBad, ToneUnknown})},
}
