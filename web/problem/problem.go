// Package problem has the error response of the API, of the agents' endpoints and of uploads, and the HTTP status of
// each error code.
package problem

import (
	"encoding/json"
	"net/http"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
)

// Body is an error response in the format of RFC 9457, with the JSON path of each wrong field.
type Body struct {
	Title     string  `json:"title"`
	Status    int     `json:"status"`
	Detail    string  `json:"detail"`              // sentence for the user: what happened and what to do
	Reference string  `json:"reference,omitempty"` // the portal's log has details under this reference
	Errors    []Field `json:"errors,omitempty"`
}

// Field is the error of one field.
type Field struct {
	Location string `json:"location"` // examples: "spec.disks[0].sizeBytes" in the body, "query.limit" and "header.If-Match" outside of it
	Message  string `json:"message"`
}

// New returns a response whose title is the text of the status.
func New(status int, detail string) *Body {
	return &Body{Title: http.StatusText(status), Status: status, Detail: detail}
}

// Write writes p as the response to c.
func Write(c echo.Context, p *Body) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return c.Blob(p.Status, p.ContentType(""), text)
}

func (p *Body) Error() string { return p.Detail }

// GetStatus implements huma.StatusError.
func (p *Body) GetStatus() int { return p.Status }

// ContentType implements huma.ContentTypeFilter.
func (p *Body) ContentType(string) string { return "application/problem+json" }

// StatusByCode has the HTTP status of each error code.
var StatusByCode = map[fleet.ErrorCode]int{
	fleet.Invalid:      http.StatusUnprocessableEntity,
	fleet.Malformed:    http.StatusBadRequest,
	fleet.Unauthorized: http.StatusUnauthorized,
	fleet.Forbidden:    http.StatusForbidden,
	fleet.NotFound:     http.StatusNotFound,
	fleet.Conflict:     http.StatusConflict,
	fleet.TooLarge:     http.StatusRequestEntityTooLarge,
	fleet.TooMany:      http.StatusTooManyRequests,
	fleet.Unavailable:  http.StatusServiceUnavailable,
}
