// Package bodylimit has the limits of request bodies: their size, the time until they arrive, and the number of JSON
// values in them.
package bodylimit

import (
	"bytes"
	"errors"
	"net/http"
	"time"

	"quantix/internal/fleet"
)

// ReadTimeout is how long a request body may take to arrive. Without this limit, a slow client could hold its
// connection forever.
const ReadTimeout = 15 * time.Second

// SetReadDeadline sets the read deadline of the response's connection; the zero time means none. It ignores connections
// that support no deadlines, such as a test's recorder.
func SetReadDeadline(w http.ResponseWriter, t time.Time) {
	_ = http.NewResponseController(w).SetReadDeadline(t)
}

// TooLargeError returns the error for a body of more than limit bytes.
func TooLargeError(limit int64) error {
	return fleet.Errorf(fleet.TooLarge, "The request is larger than %d KiB. Send less at once.", limit>>10)
}

// TooManyValuesError returns the error for a body of more than most JSON values.
func TooManyValuesError(most int) error {
	return fleet.Errorf(fleet.TooLarge, "The request has more than %d JSON values. Send fewer values at once.", most)
}

// CheckValueCount returns TooManyValuesError for a body of more than most JSON values. Each list and object counts as one
// value. It runs before the body is decoded: an empty object in JSON has three bytes but takes a kilobyte when decoded,
// so a size limit alone does not bound memory.
func CheckValueCount(text []byte, most int) error {
	if quick := 1 + bytes.Count(text, []byte{','}) + bytes.Count(text, []byte{'{'}) + bytes.Count(text, []byte{'['}); quick <= most {
		return nil // quick is an upper bound, because these characters may also occur in strings
	}
	if countJSONValues(text) > most {
		return TooManyValuesError(most)
	}
	return nil
}

// countJSONValues returns the size of a JSON text for CheckValueCount: each list, object, string, number, boolean and
// null counts as one. For invalid JSON the result is arbitrary.
func countJSONValues(text []byte) (n int) {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case ' ', '\t', '\r', '\n', ',', ']', '}':
		case ':':
			n-- // the string before the colon was a name, not a value
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
			for i+1 < len(text) && !endsJSONScalar[text[i+1]] {
				i++
			}
		}
	}
	return n
}

var endsJSONScalar = [256]bool{' ': true, '\t': true, '\r': true, '\n': true, ',': true, ']': true, '}': true, ':': true, '"': true, '[': true, '{': true}

// ConvertMaxBytesError converts err to TooLargeError if http.MaxBytesReader ended the read because the body was too long. It
// returns any other error unchanged.
func ConvertMaxBytesError(err error) error {
	if e, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return TooLargeError(e.Limit)
	}
	return err
}
