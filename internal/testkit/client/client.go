// Package client calls a portal's API at /api/v1 with the types of package fleet. Package web describes the API. An
// unsuccessful answer is returned as *Error.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"quantix/internal/fleet"
)

const (
	base       = "/api/v1"
	maxAnswer  = 64 << 20
	maxProblem = 1 << 20
)

// Client is one user's client of one portal. It is safe for concurrent use.
type Client struct {
	portal *url.URL
	token  string
	http   *http.Client
}

// New returns a client of the portal at "https://quantix.example.org" with an API token. If via is nil, calls time out
// after 30 s.
func New(portal, token string, via *http.Client) (*Client, error) {
	u, err := url.Parse(portal)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, fmt.Errorf("%q is not a portal address: write the address as https://host", portal)
	}
	if via == nil {
		via = &http.Client{Timeout: 30 * time.Second}
	}
	return &Client{portal: u, token: token, http: via}, nil
}

// Error is an error answer of the portal.
type Error struct {
	Status    int
	Detail    string             // a sentence for people
	Reference string             // identifies the entry in the portal's log after an internal error
	Fields    []fleet.FieldError // refused fields with their errors, by JSON path
}

func (e *Error) Error() string {
	text := e.Detail
	if len(e.Fields) > 1 {
		lines := make([]string, len(e.Fields))
		for i, f := range e.Fields {
			lines[i] = f.Field + ": " + f.Message
		}
		text += " " + strings.Join(lines, " ")
	}
	return text
}

// StatusOf returns the HTTP status of the first Error in err's chain; 0 if the portal did not answer.
func StatusOf(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Status
	}
	return 0
}

// request is a call of the API. in is sent as JSON, and the answer is decoded into out. Both may be nil.
type request struct {
	method, path string
	query        url.Values
	header       map[string]string
	in, out      any
}

func (c *Client) do(ctx context.Context, r request) (http.Header, error) {
	var body io.Reader
	if r.in != nil {
		text, err := json.Marshal(r.in)
		if err != nil {
			return nil, fmt.Errorf("encode %s %s: %w", r.method, r.path, err)
		}
		body = bytes.NewReader(text)
	}
	u := c.portal.JoinPath(base, r.path)
	u.RawQuery = r.query.Encode()
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for k, v := range r.header {
		if v != "" {
			req.Header.Set(k, v)
		}
	}
	answer, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("send the request to the portal: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		return nil, problemError(answer)
	}
	if r.out == nil {
		_, err := io.Copy(io.Discard, io.LimitReader(answer.Body, maxProblem))
		return answer.Header, err
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxAnswer)).Decode(r.out); err != nil {
		return nil, fmt.Errorf("read the portal's answer to %s %s: %w", r.method, r.path, err)
	}
	return answer.Header, nil
}

func problemError(answer *http.Response) error {
	var body struct {
		Detail, Reference string
		Errors            []struct{ Location, Message string }
	}
	e := &Error{Status: answer.StatusCode, Detail: http.StatusText(answer.StatusCode)}
	if json.NewDecoder(io.LimitReader(answer.Body, maxProblem)).Decode(&body) != nil || body.Detail == "" {
		return e
	}
	e.Detail, e.Reference = body.Detail, body.Reference
	for _, f := range body.Errors {
		e.Fields = append(e.Fields, fleet.FieldError{Field: f.Location, Message: f.Message})
	}
	return e
}

// getObject requests one object.
func getObject[T any](ctx context.Context, c *Client, path ...string) (T, error) {
	return changeObject[T](ctx, c, http.MethodGet, nil, path...)
}

func changeObject[T any](ctx context.Context, c *Client, method string, in any, path ...string) (T, error) {
	var out T
	_, err := c.do(ctx, request{method: method, path: joinPath(path), in: in, out: &out})
	return out, err
}

func getPage[T any](ctx context.Context, c *Client, q fleet.Query, path ...string) (fleet.Page[T], error) {
	values := url.Values{}
	for k, v := range map[string]string{"filter": q.Filter, "sort": q.Sort, "after": q.After, "before": q.Before, "project": string(q.Project)} {
		if v != "" {
			values.Set(k, v)
		}
	}
	if q.Limit > 0 {
		values.Set("limit", strconv.Itoa(q.Limit))
	}
	var out fleet.Page[T]
	_, err := c.do(ctx, request{method: http.MethodGet, path: joinPath(path), query: values, out: &out})
	return out, err
}

func (c *Client) send(ctx context.Context, method string, in any, path ...string) error {
	_, err := c.do(ctx, request{method: method, path: joinPath(path), in: in})
	return err
}

func joinPath(path []string) string {
	escaped := make([]string, len(path))
	for i, p := range path {
		escaped[i] = url.PathEscape(p)
	}
	return strings.Join(escaped, "/")
}

// AllPages reads all pages of a list.
func AllPages[T any](ctx context.Context, q fleet.Query, get func(context.Context, fleet.Query) (fleet.Page[T], error)) ([]T, error) {
	var all []T
	for {
		page, err := get(ctx, q)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if page.Next == "" {
			return all, nil
		}
		q.After = page.Next
	}
}
