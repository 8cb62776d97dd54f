package iac

import "strings"

// maxCommand is the longest command line in bytes: a shell gets it as one argument,
// which Linux bounds to 32 pages, the end's NUL included.
// https://man7.org/linux/man-pages/man2/execve.2.html
const maxCommand = 128<<10 - 1

// commandLine returns argv, which isn't empty, as the one text that the wire has for a
// command. A POSIX shell reads it back as the same words and puts the program in its
// own place: exec passes over what the shell has built in (its echo reads backslashes,
// its kill and test differ), and lets signals through.
// https://pubs.opengroup.org/onlinepubs/9799919799/utilities/V3_chap02.html#exec
//
// A program whose name begins with a dash would be an option of exec; no shell has one
// of such a name built in.
func commandLine(argv []string) string {
	words := make([]string, 0, 1+len(argv))
	if !strings.HasPrefix(argv[0], "-") {
		words = append(words, "exec")
	}
	for _, a := range argv {
		words = append(words, quote(a))
	}
	return strings.Join(words, " ")
}

// quote makes one word of an argument. Between the characters that backends go by when
// they put in something of their own before a shell sees the text it leaves a gap, which
// is nothing to the shell: $( and $$ are Kubernetes's, ${ is App Platform's, {{ Argo's,
// Ref:: AWS Batch's.
// https://kubernetes.io/docs/tasks/inject-data-application/define-command-argument-container/
// https://docs.digitalocean.com/products/app-platform/how-to/use-environment-variables/
// https://argo-workflows.readthedocs.io/en/latest/variables/
// https://docs.aws.amazon.com/batch/latest/userguide/job_definition_parameters.html
func quote(arg string) string {
	var b strings.Builder
	b.Grow(len(arg) + 2)
	b.WriteByte('\'')
	var last byte
	for i := 0; i < len(arg); i++ {
		c := arg[i]
		switch {
		case c == '\'':
			b.WriteString(`'\''`)
			last = c
			continue
		case last == '$' && (c == '$' || c == '(' || c == '{'), last == '{' && c == '{', last == ':' && c == ':':
			b.WriteString("''")
		}
		b.WriteByte(c)
		last = c
	}
	b.WriteByte('\'')
	return b.String()
}

// variable says why a variable of this name wouldn't reach the job as it is set, since
// a shell stands in between; empty where it would.
func variable(name string) string {
	for i := 0; i < len(name); i++ {
		c := name[i]
		if c != '_' && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (i == 0 || c < '0' || c > '9') {
			return "the command is read by a shell, and some drop a variable whose name isn't letters, digits and _"
		}
	}
	switch name {
	case "IFS", "PWD", "OLDPWD", "OPTIND", "PPID", "LINENO", "SHLVL", "PS1", "PS2", "PS4", "_",
		"SHELLOPTS", "RANDOM", "SRANDOM", "SECONDS", "HISTCMD", "COMP_WORDBREAKS", "EPOCHSECONDS", "EPOCHREALTIME", "FUNCNAME", "GROUPS", "DIRSTACK", "UID", "EUID":
		return "the command is read by a shell, which sets this variable itself"
	}
	if strings.HasPrefix(name, "BASH") {
		return "the command is read by a shell, and bash sets, or goes by, this variable itself"
	}
	return ""
}
