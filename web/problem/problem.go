// Package problem has the error response of the API, of the agents' endpoints and of uploads.
package problem

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
	Location string `json:"location"` // "spec.disks[0].sizeBytes"; "query.limit" and "header.If-Match" outside the body
	Message  string `json:"message"`
}

func (p *Body) Error() string { return p.Detail }

// GetStatus implements huma.StatusError.
func (p *Body) GetStatus() int { return p.Status }

// ContentType implements huma.ContentTypeFilter.
func (p *Body) ContentType(string) string { return "application/problem+json" }
