package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Error is an answer of the portal that is no success. Detail is a sentence for people.
type Error struct {
	Status int
	Detail string
}

func (e *Error) Error() string { return fmt.Sprintf("the portal answered %d: %s", e.Status, e.Detail) }

// StatusOf is the HTTP status of the first Error in err's chain; 0 where the portal did not answer at all.
func StatusOf(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Status
	}
	return 0
}

// maxProblem bounds what is read of an error's body.
const maxProblem = 64 << 10

func problem(status int, text io.Reader) error {
	var body struct{ Title, Detail string }
	e := &Error{Status: status, Detail: http.StatusText(status)}
	if json.NewDecoder(io.LimitReader(text, maxProblem)).Decode(&body) == nil {
		switch {
		case body.Detail != "":
			e.Detail = body.Detail
		case body.Title != "":
			e.Detail = body.Title
		}
	}
	return e
}
