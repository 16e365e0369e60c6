// Transactions, for tests: java -cp CLASSPATH Transactions.java SERVERS TOPIC STEP...
// A step is commit:N, abort:N or open:N: a transaction of N records to partition 0, with the values commit-0, commit-1, ...; one that is left
// open ends the program at once.
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

public class Transactions {
    public static void main(String[] args) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", args[0]);
        p.put("transactional.id", "transactions-" + args[1] + System.nanoTime());
        p.put("transaction.timeout.ms", "60000");
        KafkaProducer<String, String> producer = new KafkaProducer<>(p, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        for (int i = 2; i < args.length; i++) {
            String how = args[i].split(":")[0];
            int count = Integer.parseInt(args[i].split(":")[1]);
            producer.beginTransaction();
            for (int n = 0; n < count; n++) producer.send(new ProducerRecord<>(args[1], 0, "k" + n, how + "-" + n)).get();
            if (how.equals("commit")) producer.commitTransaction();
            else if (how.equals("abort")) producer.abortTransaction();
            else Runtime.getRuntime().halt(0);
        }
        producer.close();
    }
}
