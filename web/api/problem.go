package api

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"

	"quantix/web/bodylimit"
	"quantix/web/problem"
)

// init replaces huma's package variables for validation errors, so that errors have the portal's format and wording.
func init() {
	huma.ValidateStrictCasing = true // otherwise "CPUs" would be accepted and ignored beside "cpus"
	huma.NewError = func(status int, text string, errs ...error) huma.StatusError {
		return problemFromHuma(status, text, errs)
	}
	validation.MsgUnexpectedProperty = "There is no such field here, or the field cannot be set."
	validation.MsgExpectedBoolean = "Give true or false."
	validation.MsgExpectedNumber = "Enter a number."
	validation.MsgExpectedInteger = "Enter a whole number."
	validation.MsgExpectedString = "Give a text."
	validation.MsgExpectedArray = "Give a list."
	validation.MsgExpectedObject = "Give an object."
	validation.MsgExpectedRequiredProperty = "The field %s is missing."
}

// textsByHumaText maps the texts of huma that are not in package variables to the portal's texts.
var textsByHumaText = map[string]string{
	"invalid integer": "Enter a whole number.", "invalid boolean": "Give true or false.", "request body is required": "Send a JSON object as the request's body.",
	"unknown query parameter": "There is no such parameter.",
}

// jsonOverflowPattern matches encoding/json's error for a value that overflows its field's type, which huma passes on
// as text. The submatch is the field's path without the names of embedded structs, which begin with a capital letter.
var jsonOverflowPattern = regexp.MustCompile(`^json: cannot unmarshal .* into Go struct field [^.]*\.(?:[A-Z]\w*\.)*(.+) of type \S+$`)

const invalidValueText = "The field cannot hold this value."

func problemFromHuma(status int, text string, errs []error) *problem.Body {
	p := &problem.Body{Title: http.StatusText(status), Status: status, Detail: humaErrorText(text)}
	for _, err := range errs {
		d, ok := err.(huma.ErrorDetailer)
		if !ok || err == nil {
			continue
		}
		detail := d.ErrorDetail()
		f := problem.Field{Location: strings.TrimPrefix(strings.TrimPrefix(detail.Location, "body"), "."), Message: humaErrorText(detail.Message)}
		if m := jsonOverflowPattern.FindStringSubmatch(detail.Message); m != nil {
			f = problem.Field{Location: m[1], Message: invalidValueText}
		}
		p.Errors = append(p.Errors, f)
	}
	switch {
	case status == http.StatusRequestEntityTooLarge:
		p.Detail = bodylimit.TooLargeError(MaxBodyBytes).Error()
	case status == http.StatusBadRequest && len(p.Errors) == 1 && p.Errors[0].Message == bodylimit.TooManyValuesError(maxValues).Error():
		p.Status, p.Title = http.StatusRequestEntityTooLarge, http.StatusText(http.StatusRequestEntityTooLarge)
		p.Detail, p.Errors = p.Errors[0].Message, nil
	case status == http.StatusUnsupportedMediaType:
		p.Detail, p.Errors = "Send JSON, with \"Content-Type: application/json\", or YAML, with \"Content-Type: application/yaml\".", nil
	case status == http.StatusBadRequest && len(p.Errors) == 1 && strings.HasSuffix(p.Errors[0].Message, "."): // a sentence of this package, not of huma
		p.Detail, p.Errors = p.Errors[0].Message, nil
	case status == http.StatusBadRequest && len(p.Errors) == 1:
		p.Detail, p.Errors = "The request is not valid JSON: "+p.Errors[0].Message+".", nil
	case status == http.StatusRequestTimeout, status == http.StatusInternalServerError: // the body could not be read
		p.Status, p.Title = http.StatusBadRequest, http.StatusText(http.StatusBadRequest)
		p.Detail, p.Errors = "The request was cut off. Send it again.", nil
	case len(p.Errors) == 1:
		p.Detail = p.Errors[0].Message
	case len(p.Errors) > 1:
		p.Detail = fmt.Sprintf("%d fields need a correction.", len(p.Errors))
	}
	return p
}

func humaErrorText(text string) string {
	if words, ok := textsByHumaText[text]; ok {
		return words
	}
	return text
}
