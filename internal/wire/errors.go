package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Error is an unsuccessful answer of the portal. Detail is a sentence for people.
type Error struct {
	Status int
	Detail string
}

func (e *Error) Error() string { return fmt.Sprintf("the portal answered %d: %s", e.Status, e.Detail) }

// StatusOf returns the HTTP status of the first Error in err's chain; 0 if the portal did not answer.
func StatusOf(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Status
	}
	return 0
}

// maxErrorBody is the largest error body that is read, in bytes.
const maxErrorBody = 64 << 10

func portalError(status int, text io.Reader) error {
	var body struct{ Title, Detail string }
	e := &Error{Status: status, Detail: http.StatusText(status)}
	if json.NewDecoder(io.LimitReader(text, maxErrorBody)).Decode(&body) == nil {
		switch {
		case body.Detail != "":
			e.Detail = body.Detail
		case body.Title != "":
			e.Detail = body.Title
		}
	}
	return e
}
