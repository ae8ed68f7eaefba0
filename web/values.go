package web

import (
	"bytes"
	"encoding/json"

	"github.com/danielgtaylor/huma/v2"

	"quantix/internal/fleet"
)

// What a body may hold, each list and each object counted as one value: an empty object takes three bytes to send and a kilobyte to
// read, so that bytes alone bound no memory.
const (
	apiValues   = 25_000
	agentValues = 512 << 10 // a report lists all that its host has
)

const tooManyValues = "The request holds more than %d values. Send less at once."

// checkValues refuses a body of more than most values, before it is read.
func checkValues(text []byte, most int) error {
	if quick := 1 + bytes.Count(text, []byte{','}) + bytes.Count(text, []byte{'{'}) + bytes.Count(text, []byte{'['}); quick <= most {
		return nil // texts have such characters too: there are no more values than that
	}
	if values(text) > most {
		return fleet.Errorf(fleet.TooLarge, tooManyValues, most)
	}
	return nil
}

// boundedJSON is how the API reads a body.
var boundedJSON = huma.Format{
	Marshal: huma.DefaultJSONFormat.Marshal,
	Unmarshal: func(text []byte, into any) error {
		if err := checkValues(text, apiValues); err != nil {
			return err
		}
		return json.Unmarshal(text, into)
	},
}

// values is how many values the JSON text has. Of a text that is none, the answer is any number.
func values(text []byte) (n int) {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case ' ', '\t', '\r', '\n', ',', ']', '}':
		case ':':
			n-- // what stood before it was a name
		case '"':
			n++
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case '[', '{':
			n++
		default: // a number, true, false or null
			n++
			for i+1 < len(text) && !endsWord[text[i+1]] {
				i++
			}
		}
	}
	return n
}

var endsWord = [256]bool{' ': true, '\t': true, '\r': true, '\n': true, ',': true, ']': true, '}': true, ':': true, '"': true, '[': true, '{': true}
