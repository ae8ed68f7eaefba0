package web

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"
)

// problemBody is a refusal as RFC 9457 writes it, with the JSON path of a field where one applies.
type problemBody struct {
	Title     string         `json:"title"`
	Status    int            `json:"status"`
	Detail    string         `json:"detail"`              // a sentence for people
	Reference string         `json:"reference,omitempty"` // under which the portal's log has the details
	Errors    []problemField `json:"errors,omitempty"`
}

type problemField struct {
	Location string `json:"location"` // "spec.disks[0].sizeBytes"; "query.limit" and "header.If-Match" outside the body
	Message  string `json:"message"`
}

func problemOf(r refusal) *problemBody {
	p := &problemBody{Title: http.StatusText(r.status), Status: r.status, Detail: r.text(), Reference: r.reference}
	for _, f := range r.fields {
		p.Errors = append(p.Errors, problemField{Location: f.Field, Message: f.Message})
	}
	return p
}

func (p *problemBody) Error() string { return p.Detail }

// GetStatus and ContentType make it huma's error.
func (p *problemBody) GetStatus() int { return p.Status }

// ContentType of a problem is always this one.
func (p *problemBody) ContentType(string) string { return "application/problem+json" }

// What huma finds wrong comes out in the portal's own words and shape. huma keeps both in package variables.
func init() {
	huma.ValidateStrictCasing = true // else "CPUs" would be let through, and lost beside "cpus"
	huma.NewError = func(status int, text string, errs ...error) huma.StatusError { return humaProblem(status, text, errs) }
	validation.MsgUnexpectedProperty = "There is no such field here, or it cannot be set."
	validation.MsgExpectedBoolean = "Give true or false."
	validation.MsgExpectedNumber = "Give a number."
	validation.MsgExpectedInteger = "Give a whole number."
	validation.MsgExpectedString = "Give a text."
	validation.MsgExpectedArray = "Give a list."
	validation.MsgExpectedObject = "Give an object."
	validation.MsgExpectedRequiredProperty = "The field %s is missing."
}

// humaTexts are the words for what huma says outside its table of messages.
var humaTexts = map[string]string{
	"invalid integer": "Give a whole number.", "invalid boolean": "Give true or false.", "request body is required": "Send a JSON object as the request's body.",
	"unknown query parameter": "There is no such parameter.",
}

// unreadForm is what encoding/json says of a value that is of the right kind and beyond its type; huma gives it on as a text.
// Embedded structs stand in the path as well, in capitals.
var unreadForm = regexp.MustCompile(`^json: cannot unmarshal .* into Go struct field [^.]*\.(?:[A-Z]\w*\.)*(.+) of type \S+$`)

const noValue = "This is no value of the field."

func humaProblem(status int, text string, errs []error) *problemBody {
	p := &problemBody{Title: http.StatusText(status), Status: status, Detail: said(text)}
	for _, err := range errs {
		d, ok := err.(huma.ErrorDetailer)
		if !ok || err == nil {
			continue
		}
		detail := d.ErrorDetail()
		f := problemField{Location: strings.TrimPrefix(strings.TrimPrefix(detail.Location, "body"), "."), Message: said(detail.Message)}
		if m := unreadForm.FindStringSubmatch(detail.Message); m != nil {
			f = problemField{Location: m[1], Message: noValue}
		}
		p.Errors = append(p.Errors, f)
	}
	switch {
	case status == http.StatusRequestEntityTooLarge:
		p.Detail = tooLarge(apiLimit).Error()
	case status == http.StatusBadRequest && len(p.Errors) == 1 && p.Errors[0].Message == fmt.Sprintf(tooManyValues, apiValues):
		p.Status, p.Title = http.StatusRequestEntityTooLarge, http.StatusText(http.StatusRequestEntityTooLarge)
		p.Detail, p.Errors = p.Errors[0].Message, nil
	case status == http.StatusUnsupportedMediaType:
		p.Detail, p.Errors = "Send JSON, with \"Content-Type: application/json\", or YAML, with \"Content-Type: application/yaml\".", nil
	case status == http.StatusBadRequest && len(p.Errors) == 1 && strings.HasSuffix(p.Errors[0].Message, "."): // our own sentence
		p.Detail, p.Errors = p.Errors[0].Message, nil
	case status == http.StatusBadRequest && len(p.Errors) == 1:
		p.Detail, p.Errors = "The request is not valid JSON: "+p.Errors[0].Message+".", nil
	case status == http.StatusRequestTimeout, status == http.StatusInternalServerError: // the body could not be read
		p.Status, p.Title = http.StatusBadRequest, http.StatusText(http.StatusBadRequest)
		p.Detail, p.Errors = "The request did not arrive whole. Send it again.", nil
	case len(p.Errors) == 1:
		p.Detail = p.Errors[0].Message
	case len(p.Errors) > 1:
		p.Detail = fmt.Sprintf("%d fields need a correction.", len(p.Errors))
	}
	return p
}

func said(text string) string {
	if words, ok := humaTexts[text]; ok {
		return words
	}
	return text
}
