package vm

func nextBootWords(fields []string) []string {
	out := make([]string, len(fields))
	for i, f := range fields {
		out[i] = fieldWord(f)
	}
	return out
}
