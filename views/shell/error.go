package shell

// ErrorPage is an error as a page.
type ErrorPage struct {
	Status    int
	Message   string
	Reference string
	Path      string // target of "Try again"
	NoRole    bool   // the user has no role yet and may see nothing
}

// Title is the error in a few words.
func (p ErrorPage) Title() string {
	if p.NoRole {
		return "No role yet"
	}
	switch p.Status {
	case 403:
		return "Not allowed"
	case 404:
		return "Not found"
	case 409:
		return "Not possible now"
	case 503:
		return "Not available"
	case 429:
		return "Too many requests"
	case 500:
		return "Something went wrong"
	}
	return "Not done"
}
