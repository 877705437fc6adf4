// Fills in java-regex.txt: its first line holds topic names, each further line a pattern after what Java finds: a bit for
// each name, or 'error'. From the project's root:
//   java test/spark/JavaRegex.java test/spark/java-regex.txt

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;

public class JavaRegex {
  public static void main(String[] args) throws Exception {
    Path file = Path.of(args[0]);
    List<String> lines = Files.readAllLines(file);
    String[] topics = lines.get(0).split(" ");
    List<String> filled = new ArrayList<>(List.of(lines.get(0)));
    for (String line : lines.subList(1, lines.size())) {
      String pattern = line.substring(line.indexOf(' ') + 1);
      filled.add(find(pattern, topics) + " " + pattern);
    }
    Files.write(file, filled);
  }

  static String find(String text, String[] topics) {
    try {
      Pattern pattern = Pattern.compile(text);
      StringBuilder bits = new StringBuilder();
      for (String topic : topics) bits.append(pattern.matcher(topic).find() ? '1' : '0');
      return bits.toString();
    } catch (RuntimeException e) { // also those that are faults of Pattern
      return "error";
    }
  }
}
